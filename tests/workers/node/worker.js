// The program of kafkajs; lines.py describes the commands and events.
'use strict'

const { PartitionAssigners } = require('kafkajs')
const { kafka, named, note, say } = require('./lines')
const { Service, run } = require('./services')

const sorted = partitions => [...partitions].sort((a, b) => a - b)

class Member {
  constructor (words) {
    if (words.assignor !== 'roundrobin') throw new Error(`kafkajs has no assignor ${words.assignor}`)
    this.topic = words.topic
    this.service = new Service(words.service)
    this.isAuto = words.service === 'auto'
    this.isFromBeginning = words.reset !== 'latest'
    // The consumer's commitOffsets tries again where a rebalance has come between, and
    // crashes the consumer for good; the batch's does neither.
    this.commitsBatches = words.plain !== undefined
    this.held = []
    this.generation = null
    this.consumer = kafka(words.bootstrap, words.client, words).consumer({
      groupId: words.group,
      partitionAssigners: [PartitionAssigners.roundRobin],
      sessionTimeout: Number(words.session),
      rebalanceTimeout: Number(words.poll || words.session),
      heartbeatInterval: Number(words.heartbeat),
      maxWaitTimeInMs: 200,
    })
  }

  owns (why, partitions) {
    this.held = sorted(partitions)
    this.service.keep(this.held)
    say({ event: 'owns', why, partitions: this.held, generation: this.generation })
  }

  async join () {
    const { consumer, topic } = this
    const { CRASH, GROUP_JOIN, HEARTBEAT, REBALANCING, REQUEST_TIMEOUT } = consumer.events
    consumer.on(GROUP_JOIN, ({ payload }) => {
      this.generation = null
      this.owns('assigned', payload.memberAssignment[topic] || [])
    })
    consumer.on(REBALANCING, () => this.owns('revoked', []))
    // The one event of kafkajs that names the generation: of an assignment it is known by
    // the first heartbeat after it.
    consumer.on(HEARTBEAT, ({ payload }) => {
      if (this.generation === payload.groupGenerationId) return
      this.generation = payload.groupGenerationId
      this.owns('assigned', this.held)
    })
    consumer.on(CRASH, ({ payload }) => {
      if (payload.restart) note(`crashed, restarts: ${named(payload.error)}`)
      else say({ event: 'error', text: named(payload.error) })
    })
    consumer.on(REQUEST_TIMEOUT, ({ payload }) => say({ event: 'log', text: `timed out: ${payload.apiName}` }))
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: this.isFromBeginning })
    await consumer.run({
      autoCommit: this.isAuto,
      eachBatchAutoResolve: false,
      eachBatch: each => this.consume(each),
    })
  }

  async consume ({ batch, resolveOffset, commitOffsetsIfNecessary, heartbeat, isRunning, isStale }) {
    const goesOn = () => isRunning() && !isStale()
    if (!goesOn() || batch.isEmpty()) return
    const records = batch.messages.map(({ offset, key, value }) =>
      [batch.partition, Number(offset), key === null ? '' : key.toString(), value.toString()])
    const count = await this.service.consume(records, async ends => {
      const partitions = ends.map(([partition, offset]) => ({ partition, offset: String(offset) }))
      if (this.commitsBatches) await commitOffsetsIfNecessary({ topics: [{ topic: this.topic, partitions }] })
      else await this.consumer.commitOffsets(partitions.map(each => ({ topic: this.topic, ...each })))
    }, goesOn)
    if (count > 0) resolveOffset(batch.messages[count - 1].offset)
    await heartbeat()
  }

  seek (partition, offset) {
    this.consumer.seek({ topic: this.topic, partition, offset })
  }

  tell () {
    this.owns('told', this.held)
  }

  async close () {
    await this.consumer.disconnect()
  }
}

async function produce (words) {
  const producer = kafka(words.bootstrap, 'producer', words).producer({ idempotent: true })
  const first = Number(words.first)
  const count = Number(words.count)
  const messages = Array.from({ length: count }, (_, index) =>
    ({ key: `key-${first + index}`, value: `value-${first + index}` }))
  await producer.connect()
  await producer.send({ topic: words.topic, acks: -1, messages })
  await producer.disconnect()
  say({ event: 'produced', count })
}

run(Member, produce, require('./transactions'))
