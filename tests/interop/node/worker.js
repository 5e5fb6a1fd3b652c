// A worker over kafkajs; workers/lines.py describes the commands and events.
'use strict'

const readline = require('node:readline')
const { PartitionAssigners } = require('kafkajs')
const { kafka, named, note, parsed, say } = require('./lines')

const sorted = partitions => [...partitions].sort((a, b) => a - b)

class Member {
  constructor (words) {
    if (words.assignor !== 'roundrobin') throw new Error(`kafkajs has no assignor ${words.assignor}`)
    this.topic = words.topic
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
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: each => this.consume(each) })
  }

  async consume ({ batch, resolveOffset, commitOffsetsIfNecessary, heartbeat, isRunning, isStale }) {
    if (!isRunning() || isStale() || batch.isEmpty()) return
    const { partition } = batch
    const records = batch.messages.map(({ offset, key, value }) =>
      [partition, Number(offset), key === null ? '' : key.toString(), value.toString()])
    say({ event: 'consumed', records })
    const end = Number(batch.lastOffset()) + 1
    const offset = String(end)
    try {
      if (this.commitsBatches) {
        await commitOffsetsIfNecessary({ topics: [{ topic: this.topic, partitions: [{ partition, offset }] }] })
      } else {
        await this.consumer.commitOffsets([{ topic: this.topic, partition, offset }])
      }
      say({ event: 'committed', offsets: [[partition, end]] })
    } catch (error) {
      note(`commit failed: ${named(error)}`)
      throw error
    }
    resolveOffset(batch.lastOffset())
    await heartbeat()
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

async function main () {
  let member = null
  say({ event: 'ready' })
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { verb, words } = parsed(line)
    if (verb === 'join') {
      member = new Member(words)
      await member.join()
    } else if (verb === 'produce') {
      await produce(words)
    } else if (verb === 'tell') {
      member.tell()
    } else if (verb === 'leave') {
      await member.close()
      member = null
      say({ event: 'left' })
    } else if (verb === 'close') {
      if (member !== null) await member.close()
      say({ event: 'closed' })
      process.exit(0)
    } else {
      throw new Error(`no such command: ${verb}`)
    }
  }
  process.exit(3) // the scene is gone
}

main().catch(error => {
  say({ event: 'error', text: `${named(error)}: ${error.stack || ''}` })
  process.exit(1)
})
