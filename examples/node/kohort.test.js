// Each verb of kohort.js, with one member of a group.
'use strict'

const assert = require('node:assert/strict')
const { test } = require('node:test')
const { Kafka, logLevel } = require('kafkajs')
const billing = require('./billing')
const { start, withKohort } = require('./kohort')

const MEMBER = 'billing-1'

test('verbs', withKohort({ nodes: 2 }, async (kohort, t) => {
  await createTopic(kohort)
  const group = kohort.group('billing')
  const again = ({ generation }) => group.until({ state: 'Stable', members: 1, generation: generation + 1 })
  const withMember = scene => async () => {
    const consumer = await billing.start(kohort.bootstrapServers, MEMBER, () => {})
    try {
      await group.until({ members: 1, assigned: true })
      await scene()
    } finally {
      await consumer.disconnect()
      // A consumer that is looking for its coordinator does not leave.
      for (const { member_id: id } of (await group.describe()).members) await group.kick(id)
    }
  }

  await t.test('views', withMember(async () => {
    const { members: [member] } = await group.describe()
    assert.equal(member.client_id, MEMBER)
    assert.deepEqual(member.assignment, { orders: [0, 1, 2, 3] })
    assert.equal((await group.offsets()).length, 4)
    assert.match(await group.why(), /billing-1 was the first to join/)
  }))

  await t.test('the member is replaced', withMember(async () => {
    const before = await group.describe()
    await group.kick(MEMBER, 'by a test')
    const kicked = await again(before)
    assert.notEqual(kicked.members[0].member_id, before.members[0].member_id)
    await group.expire(MEMBER)
    await again(kicked)
    assert.match(await group.why(), /by a test/)
  }))

  await t.test('the member is muted', withMember(async () => {
    assert.equal((await group.mute(MEMBER)).members[0].is_muted, true)
    assert.equal((await group.unmute(MEMBER)).members[0].is_muted, false)
  }))

  await t.test('the group is held', withMember(async () => {
    const before = await group.describe()
    assert.equal((await group.hold()).held, 'PreparingRebalance')
    assert.equal((await group.rebalance('by a test')).state, 'PreparingRebalance')
    await group.release()
    const released = await again(before)
    await group.hold('CompletingRebalance')
    await group.rebalance()
    await group.until({ state: 'CompletingRebalance' })
    await group.release()
    await again(released)
    assert.equal((await group.limit(1)).max_size, 1)
    assert.equal((await group.limit(null)).max_size, null)
  }))

  await t.test('the coordinator moves', withMember(async () => {
    const { coordinator: first } = await group.describe()
    const { coordinator: second } = await group.move()
    assert.notEqual(second, first)
    assert.equal((await group.move(first)).coordinator, first)
    await kohort.stopNode(first)
    assert.equal((await group.describe()).coordinator, second)
    await kohort.startNode(first)
    await kohort.restartNode(first)
    await group.stable(1)
  }))

  await t.test('faults strike', withMember(async () => {
    const before = await group.describe()
    const { id } = await kohort.faults.fail('Heartbeat', 'REBALANCE_IN_PROGRESS', { group: 'billing', once: true })
    await kohort.faults.delay('JoinGroup', 0.001, { client_id: MEMBER })
    await again(before)
    assert.equal((await kohort.faults.get(id)).strikes, 1)
    await kohort.faults.remove(id)
    await assert.rejects(kohort.faults.get(id), { status: 404 })
    await kohort.faults.clear()
    assert.deepEqual((await kohort.ask('GET', '/v1/faults')).faults, [])
  }))

  await t.test('time passes', withMember(async () => {
    const before = await group.describe()
    await kohort.advance(300)
    assert.equal((await group.describe()).generation, before.generation)
    await kohort.advance(46, { creditHeartbeats: false }) // its session is 30 s
    await again(before)
  }))

  await t.test('a transaction is held, fenced and moved', async () => {
    const transaction = kohort.transaction('orders-1')
    const producer = new Kafka({ brokers: kohort.bootstrapServers, logLevel: logLevel.NOTHING })
      .producer({ transactionalId: 'orders-1', maxInFlightRequests: 1, idempotent: true })
    await producer.connect()
    const send = async () => {
      const open = await producer.transaction()
      await open.send({ topic: 'orders', messages: [{ value: 'one' }] })
      return open
    }
    const first = await send()
    assert.equal((await transaction.until({ state: 'Ongoing' })).producer_epoch, 0)
    assert.equal((await transaction.describe()).partitions.length, 1)
    await transaction.hold()
    await first.commit()
    assert.equal((await transaction.until({ state: 'PrepareCommit' })).held, 'PrepareCommit')
    const { coordinator } = await transaction.describe()
    assert.notEqual((await transaction.move()).coordinator, coordinator)
    await transaction.release()
    await transaction.until({ state: 'CompleteCommit' })
    await assert.rejects(transaction.expire(), { status: 409 })
    await transaction.fence()
    await assert.rejects(send())
    await producer.disconnect()
  })

  await t.test('refusals', withMember(async () => {
    await assert.rejects(group.kick('ben'), /billing-1/)
    await assert.rejects(group.until({ stat: 'Stable' }), /stat/)
    await assert.rejects(kohort.faults.fail('Heartbeat', 'NOT_COORDINATOR', { tims: 1 }), /did you mean: times/)
    assert.throws(() => kohort.advance(1, { creditHeartbeat: false }), /unknown option creditHeartbeat; there are/)
    await assert.rejects(group.until({ members: 7, timeout: 0.05 }), { name: 'ConditionTimeout', message: /Generation \d+: billing-1/ })
  }))
}))

test('a failure has the story', async () => {
  const story = 'expected\nThe group idle:\ngroup idle: no events'
  const failing = withKohort({}, async kohort => {
    kohort.group('idle')
    throw new Error('expected')
  })
  await assert.rejects(failing(), error => error.message === story && error.stack.startsWith(`Error: ${story}\n`))
})

test('a broker that does not start', { skip: 'KOHORT_HTTP' in process.env }, async () => {
  await assert.rejects(start({ node: 2 }), /unknown option node; there are: nodes, /)
  await assert.rejects(start({ config: { 'no.such.setting': 1 } }), /no\.such\.setting/)
})

async function createTopic (kohort) {
  const admin = new Kafka({ brokers: kohort.bootstrapServers, logLevel: logLevel.NOTHING }).admin()
  await admin.createTopics({ topics: [{ topic: 'orders', numPartitions: 4 }] })
  await admin.disconnect()
}
