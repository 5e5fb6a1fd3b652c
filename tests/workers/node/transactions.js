// The transactions of kafkajs.
//
// kafkajs sends TxnOffsetCommit without a generation and OffsetFetch without
// `require_stable` (KIP-447 is missing), so the group cannot fence a former owner. As
// before KIP-447, each input partition has a transactional id: the next owner's
// InitProducerId ends the former owner's transaction, before the next owner asks for the
// committed offset.
'use strict'

const { PartitionAssigners } = require('kafkajs')
const { kafka, named, note, say } = require('./lines')

const BATCH = 10

const producer = async (words, transactionalId) => {
  const made = kafka(words.bootstrap, transactionalId, {})
    .producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 })
  await made.connect()
  // The first transaction, not connect, fences former producers. It has no end: nothing
  // is in it.
  await (await made.transaction()).abort()
  return made
}

// kafkajs takes CONCURRENT_TRANSACTIONS in AddPartitionsToTxn and AddOffsetsToTxn for
// final, though it only says that the markers of the last transaction are being written.
const isBetween = error => named(error).startsWith('CONCURRENT_TRANSACTIONS')

// A transaction in which `work` has succeeded; another one, if the last has not ended.
const begun = async (transactional, work) => {
  while (true) {
    const transaction = await transactional.transaction()
    try {
      await work(transaction)
      return transaction
    } catch (error) {
      await transaction.abort()
      if (!isBetween(error)) throw error
      note(named(error))
    }
  }
}

class Program {
  constructor (words) {
    this.words = words
    this.begun = 0
    this.producers = new Map() // by input partition, of this generation
    const client = kafka(words.bootstrap, words.client, {})
    this.admin = client.admin()
    this.consumer = client.consumer({
      groupId: words.group,
      partitionAssigners: [PartitionAssigners.roundRobin],
      sessionTimeout: Number(words.session),
      rebalanceTimeout: Number(words.session),
      heartbeatInterval: Number(words.heartbeat),
      maxWaitTimeInMs: 100,
    })
  }

  async join () {
    const { consumer, words } = this
    const { CRASH, GROUP_JOIN } = consumer.events
    consumer.on(GROUP_JOIN, ({ payload }) => {
      note(`assigned ${payload.memberAssignment[words.topic]}`)
      this.forget()
    })
    consumer.on(CRASH, ({ payload }) => {
      if (payload.restart) note(`crashed, restarts: ${named(payload.error)}`)
      else say({ event: 'error', text: named(payload.error) })
    })
    await this.admin.connect()
    await consumer.connect()
    await consumer.subscribe({ topic: words.topic, fromBeginning: true })
    await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: each => this.copy(each) })
  }

  forget () {
    for (const each of this.producers.values()) each.disconnect()
    this.producers.clear()
  }

  // Fences the former owner, and only then looks up where to begin.
  async committed (partition) {
    const { words } = this
    this.producers.set(partition, await producer(words, `${words.group}-${partition}`))
    const [{ partitions }] = await this.admin.fetchOffsets({ groupId: words.group, topics: [words.topic] })
    const { offset } = partitions.find(each => each.partition === partition)
    return Math.max(0, Number(offset))
  }

  async copy ({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
    if (!isRunning() || isStale() || batch.isEmpty()) return
    const { partition } = batch
    if (!this.producers.has(partition)) {
      const offset = await this.committed(partition)
      if (offset !== Number(batch.firstOffset())) {
        note(`partition ${partition} begins at ${offset}`)
        this.consumer.seek({ topic: batch.topic, partition, offset: String(offset) })
        return
      }
    }
    const { messages } = batch
    for (let at = 0; at < messages.length && isRunning() && !isStale(); at += BATCH) {
      const chunk = messages.slice(at, at + BATCH)
      if (!await this.transact(partition, chunk)) return // it is fetched again
      resolveOffset(chunk.at(-1).offset)
      await heartbeat()
    }
  }

  async transact (partition, messages) {
    const { words } = this
    const records = messages.map(({ offset, key, value }) =>
      [partition, Number(offset), key.toString(), value.toString()])
    say({ event: 'consumed', records })
    const aborts = ++this.begun % Number(words.abort) === 0
    const copies = messages.map(({ key, value }) => ({ key, value }))
    const offset = String(Number(messages.at(-1).offset) + 1)
    const transaction = await begun(this.producers.get(partition), async it => {
      await it.send({ topic: words.out, messages: copies })
      if (aborts) return
      await it.sendOffsets({
        consumerGroupId: words.group,
        topics: [{ topic: words.topic, partitions: [{ partition, offset }] }],
      })
    })
    await (aborts ? transaction.abort() : transaction.commit())
    say({ event: 'ended', is_commit: !aborts, records: copies.length })
    return !aborts
  }

  async close () {
    await this.consumer.disconnect()
    this.forget()
    await this.admin.disconnect()
  }
}

async function fence (words) {
  const sent = (transactional, key) =>
    begun(transactional, it => it.send({ topic: words.out, messages: [{ key, value: 'value' }] }))
  const first = await sent(await producer(words, words.client), 'fenced')
  const second = await producer(words, words.client)
  let text = ''
  try {
    await first.commit()
  } catch (error) {
    text = named(error)
  }
  await (await sent(second, 'fencing')).commit()
  say({ event: 'fenced', text })
}

async function read (words) {
  const groupId = `${words.out}-reader` // the library has no consumer without a group
  const consumer = kafka(words.bootstrap, 'reader', {}).consumer({ groupId, maxWaitTimeInMs: 100 })
  const ended = new Set()
  await consumer.connect()
  await consumer.subscribe({ topic: words.out, fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message: { key, offset, value } }) => {
        if (key.toString() === 'end') {
          ended.add(partition)
          if (ended.size === Number(words.partitions)) resolve()
        } else {
          say({ event: 'consumed', records: [[partition, Number(offset), key.toString(), value.toString()]] })
        }
      },
    }).catch(reject)
  })
  say({ event: 'read' })
}

module.exports = { Program, fence, read }
