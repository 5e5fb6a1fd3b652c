'use strict'

const assert = require('node:assert/strict')
const { test } = require('node:test')
const { Kafka, logLevel } = require('kafkajs')
const billing = require('./billing')
const { withKohort } = require('./kohort')

test('a held group', withKohort({ nodes: 2 }, async kohort => {
  await createTopic(kohort)
  const group = kohort.group('billing')
  await start(kohort, 'billing-1')
  await group.stable(1)

  await group.hold()
  const joining = start(kohort, 'billing-2') // until it has joined
  await group.until({ members: 2, state: 'PreparingRebalance' })
  await group.release()
  await joining

  const { members } = await group.stable(2)
  assert.deepEqual(members.map(member => member.assignment.orders.length), [2, 2])
}))

test('an expired member', withKohort({ nodes: 2 }, async kohort => {
  await createTopic(kohort)
  const group = kohort.group('billing')
  await start(kohort, 'billing-1')
  await start(kohort, 'billing-2')
  const before = await group.stable(2)

  await group.expire('billing-1')

  // It joins again, under another member id.
  const after = await group.until({ state: 'Stable', members: 2, generation: before.generation + 1 })
  assert.notEqual(memberId(after, 'billing-1'), memberId(before, 'billing-1'))
}))

test('the coordinator moves', withKohort({ nodes: 2 }, async kohort => {
  await createTopic(kohort)
  const group = kohort.group('billing')
  const billed = new Set()
  await produce(kohort, 0, 50)
  await start(kohort, 'billing-1', order => billed.add(order))
  await group.caughtUp()

  const fault = await kohort.faults.fail('OffsetCommit', 'NOT_COORDINATOR', { group: 'billing', once: true })
  await group.move()
  await produce(kohort, 50, 50)
  await group.caughtUp()

  assert.equal(billed.size, 100)
  assert.equal((await kohort.faults.get(fault.id)).strikes, 1)
}))

/** Starts a service that stops when the test ends. */
async function start (kohort, clientId, bill = () => {}) {
  const consumer = await billing.start(kohort.bootstrapServers, clientId, bill)
  kohort.after(() => consumer.disconnect())
}

async function createTopic (kohort) {
  const admin = new Kafka({ brokers: kohort.bootstrapServers, logLevel: logLevel.NOTHING }).admin()
  await admin.createTopics({ topics: [{ topic: 'orders', numPartitions: 4 }] })
  await admin.disconnect()
}

async function produce (kohort, first, count) {
  const producer = new Kafka({ brokers: kohort.bootstrapServers, logLevel: logLevel.NOTHING }).producer()
  const messages = Array.from({ length: count }, (_, number) => ({ value: `order-${first + number}` }))
  await producer.connect()
  await producer.send({ topic: 'orders', messages })
  await producer.disconnect()
}

function memberId ({ members }, clientId) {
  return members.find(member => member.client_id === clientId).member_id
}
