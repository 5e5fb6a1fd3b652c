// A worker over kafkajs; workers/lines.py says what the commands and the events are.
'use strict'

const readline = require('node:readline')
const { Kafka, PartitionAssigners, logLevel } = require('kafkajs')

const say = event => process.stdout.write(JSON.stringify(event) + '\n')

const note = text => say({ event: 'note', text })

const sorted = partitions => [...partitions].sort((a, b) => a - b)

// Errors go to the history; a scene decides by what happens, not by what is logged.
const kafka = (bootstrap, clientId) =>
  new Kafka({
    clientId,
    brokers: bootstrap.split(','),
    logLevel: logLevel.ERROR,
    logCreator: () => ({ log }) => note(log.message + (log.error ? `: ${log.error}` : '')),
    retry: { retries: 20, initialRetryTime: 100, maxRetryTime: 1000 },
  })

class Member {
  constructor (words) {
    if (words.assignor !== 'roundrobin') throw new Error(`kafkajs has no assignor ${words.assignor}`)
    this.topic = words.topic
    this.held = []
    this.generation = null
    this.consumer = kafka(words.bootstrap, words.client).consumer({
      groupId: words.group,
      partitionAssigners: [PartitionAssigners.roundRobin],
      sessionTimeout: Number(words.session),
      rebalanceTimeout: Number(words.session),
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
    const { CRASH, GROUP_JOIN, HEARTBEAT, REBALANCING } = consumer.events
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
      if (payload.restart) note(`crashed, restarts: ${payload.error}`)
      else say({ event: 'error', text: String(payload.error) })
    })
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: each => this.consume(each) })
  }

  async consume ({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
    if (!isRunning() || isStale() || batch.isEmpty()) return
    const { partition } = batch
    const records = batch.messages.map(({ offset, key, value }) =>
      [partition, Number(offset), key === null ? '' : key.toString(), value.toString()])
    say({ event: 'consumed', records })
    const end = Number(batch.lastOffset()) + 1
    try {
      await this.consumer.commitOffsets([{ topic: this.topic, partition, offset: String(end) }])
      say({ event: 'committed', offsets: [[partition, end]] })
    } catch (error) {
      note(`commit failed: ${error}`)
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
  const producer = kafka(words.bootstrap, 'producer').producer({ idempotent: true })
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
    const [verb, ...rest] = line.split(' ')
    const words = Object.fromEntries(rest.map(word => {
      const at = word.indexOf('=')
      return [word.slice(0, at), word.slice(at + 1)]
    }))
    if (verb === 'join') {
      member = new Member(words)
      await member.join()
    } else if (verb === 'produce') {
      await produce(words)
    } else if (verb === 'tell') {
      member.tell()
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
  say({ event: 'error', text: String(error.stack || error) })
  process.exit(1)
})
