// A Kafka broker with power over consumer groups, for tests in Node 18 or later: copy this file.
// It needs kohort, installed as its README says, and no package.
//
//   const { withKohort } = require('./kohort')
//
//   test('a member is replaced', withKohort({ nodes: 3 }, async (kohort, t) => {
//     // ... start consumers on kohort.bootstrapServers, in the group "billing"
//     const billing = kohort.group('billing')
//     await billing.until({ state: 'Stable', members: 2 })
//     await billing.kick('billing-1')
//     await billing.until({ state: 'Stable', rebalances: 3 })
//   }))
//
// withKohort makes a test function for node:test, Mocha, Jest or Vitest: a broker is started before the test and stopped
// after it, behind all that kohort.after() was given. An error of the test ends with the story of each group that it
// asked for, in the sentences of `kohort why`. Without a test runner: start({ nodes: 3 }), and stop().
//
// The broker is a process `kohort serve`, which ends with this one, even if this one is killed. KOHORT_COMMAND in the
// environment is the command, split at spaces, if it is not `kohort`. With KOHORT_HTTP and KAFKA_BOOTSTRAP_SERVERS, as in
// `kohort run -- node --test`, tests use that broker and start none; its settings are those of `kohort run`.
'use strict'

const { spawn } = require('node:child_process')
const readline = require('node:readline')

const START_MS = 30_000
const STOP_MS = 10_000
const ANSWER_MS = 60_000
const READY = /^kohort accepts connections on (\S+) and (\S+) \(pid \d+\)$/

/** The broker's answer to a request that it did not fulfil; `status` is HTTP's, as in 404 for something missing. */
class Refusal extends Error {
  constructor (status, message) {
    super(message)
    this.name = status === 504 ? 'ConditionTimeout' : 'Refusal'
    this.status = status
  }
}

/**
 * Starts a broker.
 *
 * @param {object} [options]
 * @param {number} [options.nodes] of the cluster
 * @param {Object<string, string|number>} [options.config] Kafka's broker settings. By default there is no initial
 *   rebalance delay, and sessions may be short.
 * @param {boolean} [options.manualClock] the broker's time stands still but for `advance`
 * @param {string[]} [options.arguments] further ones of `kohort serve`
 * @returns {Promise<Kohort>}
 */
async function start (options = {}) {
  check(options, ['nodes', 'config', 'manualClock', 'arguments'])
  const { KAFKA_BOOTSTRAP_SERVERS: servers, KOHORT_HTTP: http } = process.env
  if (servers && http) return new Kohort(servers, http, () => {})
  const config = { 'group.initial.rebalance.delay.ms': 0, 'group.min.session.timeout.ms': 1, ...options.config }
  const [program, ...words] = (process.env.KOHORT_COMMAND || 'kohort').split(/ +/)
  const broker = spawn(program, [
    ...words,
    ...['serve', '--port', '0', '--http', '0', '--until-stdin-closes', '--log-level', 'warning'],
    ...(options.nodes ? ['--nodes', String(options.nodes)] : []),
    ...(options.manualClock ? ['--clock', 'manual'] : []),
    ...Object.entries(config).flatMap(([key, value]) => ['--set', `${key}=${value}`]),
    ...(options.arguments || []),
  ])
  const ended = new Promise(resolve => broker.once('close', resolve))
  broker.stdin.on('error', () => {}) // it has ended before
  const stop = async () => {
    broker.stdin.end() // ends it
    const timer = setTimeout(() => broker.kill('SIGKILL'), STOP_MS)
    await ended
    clearTimeout(timer)
  }
  try {
    const [, bootstrapServers, url] = await addresses(broker)
    return new Kohort(bootstrapServers, url, stop)
  } catch (error) {
    broker.kill('SIGKILL')
    throw error
  }
}

/** Throws for an option that does not exist: without it, a typing error would go unnoticed. */
function check (options, known) {
  const unknown = Object.keys(options).filter(name => !known.includes(name))
  if (unknown.length) throw new TypeError(`unknown option ${unknown.join(', ')}; there are: ${known.join(', ')}`)
}

/** The line with the broker's address. The output is read to its end: a full pipe would stop the broker. */
function addresses (broker) {
  const said = []
  return new Promise((resolve, reject) => {
    const fail = why => reject(new Error([why, ...said].join('\n')))
    const timer = setTimeout(() => fail(`kohort did not start within ${START_MS} ms`), START_MS)
    const heard = line => {
      const found = READY.exec(line)
      if (found === null) return said.push(line)
      clearTimeout(timer)
      said.length = 0
      resolve(found)
    }
    readline.createInterface({ input: broker.stdout }).on('line', heard)
    readline.createInterface({ input: broker.stderr }).on('line', heard)
    broker.once('close', () => { clearTimeout(timer); fail('kohort did not start') })
    broker.once('error', error => {
      clearTimeout(timer)
      fail(`cannot run kohort (${error.message}): install it as its README says, or set KOHORT_COMMAND`)
    })
  })
}

/** A test function: `test` with a broker that `options` start, and the runner's own arguments behind it. */
function withKohort (options, test) {
  return async (...context) => {
    const kohort = await start(options)
    try {
      await test(kohort, ...context)
    } catch (error) {
      const failure = await withStories(error, kohort)
      await kohort.stop().catch(() => {}) // the test's own failure matters more
      throw failure
    }
    await kohort.stop()
  }
}

async function withStories (error, kohort) {
  if (!(error instanceof Error)) return error
  const stories = await Promise.all([...kohort.groups].map(async id =>
    `\nThe group ${id}:\n` + await kohort.group(id).why().catch(failure => failure.message)))
  // Some runners print the message, and others the stack, which begins with it.
  const message = error.message + stories.join('')
  error.stack = String(error.stack).replace(error.message, () => message)
  error.message = message
  return error
}

/** A broker: `bootstrapServers` is a list, `url` that of its HTTP port. */
class Kohort {
  constructor (bootstrapServers, url, stop) {
    this.bootstrapServers = bootstrapServers.split(',')
    this.url = url
    this.groups = new Set()
    this.transactions = new Set()
    this.faults = new Faults(this)
    this.stops = [stop]
  }

  /** Has a function called when the broker stops, before it does; the last one first. */
  after (callback) { this.stops.push(callback) }

  /** Stops the broker, unless the environment named it. A client that is held, or slowed down, would not end. */
  async stop () {
    try {
      await this.faults.clear()
      // Refused where the group, or the transaction, is not held.
      for (const id of this.groups) await this.group(id).release().catch(() => {})
      for (const id of this.transactions) await this.transaction(id).release().catch(() => {})
      while (this.stops.length > 1) await this.stops.pop()()
    } finally {
      await this.stops[0]()
    }
  }

  /** A consumer group, which need not exist yet. */
  group (id) {
    this.groups.add(id)
    return new Group(this, id)
  }

  /** A transactional id, which need not exist yet. */
  transaction (id) {
    this.transactions.add(id)
    return new Transaction(this, id)
  }

  /** Stops a node; others take over its partitions and groups. */
  stopNode (id) { return this.ask('POST', `/v1/nodes/${id}/stop`, {}) }

  /** Starts a node again, on its port. */
  startNode (id) { return this.ask('POST', `/v1/nodes/${id}/start`, {}) }

  /** Stops a node, and starts it again. */
  restartNode (id) { return this.ask('POST', `/v1/nodes/${id}/restart`, {}) }

  /**
   * Moves the broker's clock, and fires each timer that is due by then, in order. Members with a connection count as
   * heard from; without `creditHeartbeats`, sessions of members end that send none meanwhile.
   */
  advance (seconds, options = {}) {
    check(options, ['creditHeartbeats'])
    const { creditHeartbeats = true } = options
    return this.ask('POST', '/v1/clock/advance', { seconds, credit_heartbeats: creditHeartbeats })
  }

  /** Sends a request to the HTTP port; returns the JSON of the answer, or throws a Refusal. */
  async ask (method, path, body, timeoutMs = ANSWER_MS) {
    const headers = { 'Content-Type': 'application/json' }
    const token = process.env.KOHORT_HTTP_TOKEN
    if (token) headers.Authorization = `Bearer ${token}`
    const signal = AbortSignal.timeout(timeoutMs)
    const response = await fetch(this.url + path, { method, headers, signal, body: body && JSON.stringify(body) })
    const text = await response.text()
    const answer = text.trim() ? JSON.parse(text) : null
    if (response.ok) return answer
    throw new Refusal(response.status, answer.error)
  }
}

/** Verbs and views of a consumer group. A member is named by member id, group.instance.id or client.id. */
class Group {
  constructor (kohort, id) {
    this.kohort = kohort
    this.id = id
    this.path = `/v1/groups/${encodeURIComponent(id)}`
  }

  /** Removes a member; it learns so from its next request, and may join again. The reason is in the group's story. */
  kick (member, reason = '') { return this.verb('kick', { member, reason }) }

  /** Ends a member's session now, whatever its session timeout is. */
  expire (member) { return this.verb('expire', { member }) }

  /** Nothing that a member sends counts as a sign of life any more. */
  mute (member) { return this.verb('mute', { member }) }

  /** The opposite of mute. */
  unmute (member) { return this.verb('unmute', { member }) }

  /** Starts a rebalance. The reason is in the group's story. */
  rebalance (reason = '') { return this.verb('rebalance', { reason }) }

  /**
   * Holds the group in PreparingRebalance or CompletingRebalance until `release`: now, or as soon as it is in that
   * state. By default it is the state of the rebalance under way, else PreparingRebalance.
   */
  hold (state) { return this.verb('hold', { state }) }

  /** The opposite of hold. */
  release () { return this.verb('release', {}) }

  /** Makes a node the group's coordinator: the next running one, unless another is given. */
  move (node) { return this.verb('move', { node }) }

  /** As group.max.size, for this group (KIP-389); null leaves it to the broker's settings. */
  limit (maxSize) { return this.verb('limit', { max_size: maxSize }) }

  /** The group as it is: state, generation, members, coordinator, ... */
  describe () { return this.kohort.ask('GET', this.path) }

  /** Committed offset, end and lag of each partition: objects with topic, partition, committed, end, lag. */
  async offsets () { return (await this.kohort.ask('GET', `${this.path}/offsets`)).offsets }

  /**
   * What became of the records that the group was sent, once each partition that moved was fetched: words, again,
   * again_certain, again_possible, skipped, went_back, uncommitted, ...
   */
  delivery () { return this.kohort.ask('GET', `${this.path}/delivery`) }

  /**
   * Waits for all of some conditions, at most `timeout` seconds; then it throws, with the group's story.
   *
   * @param {{state?: string, members?: number, generation?: number, rebalances?: number, assigned?: boolean,
   *   topic?: string, partition?: number, offset?: number, lag?: number, timeout?: number}} conditions `generation`
   *   and `rebalances` are the least ones, `topic`, `partition` and `offset` the least committed offset, `lag` is the
   *   most records that are not committed
   */
  until (conditions) {
    const { timeout = 10, ...wanted } = conditions
    const query = new URLSearchParams({ ...wanted, timeout })
    return this.kohort.ask('GET', `${this.path}/until?${query}`, undefined, timeout * 1000 + ANSWER_MS)
  }

  /** Waits until the group is Stable with this number of members. */
  stable (members) { return this.until({ state: 'Stable', members }) }

  /** Waits until every record of the group's topics is committed. */
  caughtUp () { return this.until({ lag: 0 }) }

  /** Why the group rebalanced, in the sentences of `kohort why`. */
  async why () { return (await this.kohort.ask('GET', `/why.json?group=${encodeURIComponent(this.id)}`)).text }

  verb (name, body) { return this.kohort.ask('POST', `${this.path}/${name}`, body) }
}

/** Verbs and views of a `transactional.id`. Verbs return its row, with state, producer_epoch, coordinator and held. */
class Transaction {
  constructor (kohort, id) {
    this.kohort = kohort
    this.path = `/v1/transactions/${encodeURIComponent(id)}`
  }

  /** Fences the producer: raises the epoch, and aborts an open transaction. */
  fence () { return this.verb('fence', {}) }

  /** Aborts the open transaction, as transaction.timeout.ms does. */
  expire () { return this.verb('expire', {}) }

  /** Holds the next transaction in PrepareCommit or PrepareAbort, before its markers are written, until `release`. */
  hold (state = 'PrepareCommit') { return this.verb('hold', { state }) }

  /** The opposite of hold. */
  release () { return this.verb('release', {}) }

  /** Makes a node the coordinator: the next running one, unless another is given. */
  move (node) { return this.verb('move', { node }) }

  /** The id as it is: its producer, and the partitions and groups of its transaction. */
  describe () { return this.kohort.ask('GET', this.path) }

  /**
   * Waits until the id exists, or is in a state, at most `timeout` seconds; then it throws.
   *
   * @param {{state?: string, timeout?: number}} [conditions] `state` is Kafka's name, as in 'Ongoing'
   */
  until (conditions = {}) {
    const { timeout = 10, ...wanted } = conditions
    const query = new URLSearchParams({ ...wanted, timeout })
    return this.kohort.ask('GET', `${this.path}/until?${query}`, undefined, timeout * 1000 + ANSWER_MS)
  }

  verb (name, body) { return this.kohort.ask('POST', `${this.path}/${name}`, body) }
}

/** Rules by which the broker misbehaves; kohort's page on faults has their keys. */
class Faults {
  constructor (kohort) {
    this.kohort = kohort
  }

  /** Adds a rule, as in { api: 'Fetch', once: true, disconnect: 'before' }; returns it with `id` and `strikes`. */
  add (rule) { return this.kohort.ask('POST', '/v1/faults', rule) }

  /** An API answers with an error, as in fail('OffsetCommit', 'NOT_COORDINATOR', { times: 2 }). */
  fail (api, error, when = {}) { return this.add({ ...when, api, error }) }

  /** An API answers later, as in delay('JoinGroup', 2, { client_id: 'billing-1' }). */
  delay (api, seconds, when = {}) { return this.add({ ...when, api, delay_ms: Math.round(seconds * 1000) }) }

  /** The rule of an id as it is: how often it has struck is `strikes`. */
  get (id) { return this.kohort.ask('GET', `/v1/faults/${id}`) }

  /** Removes a rule. */
  remove (id) { return this.kohort.ask('DELETE', `/v1/faults/${id}`) }

  /** Removes all rules. */
  clear () { return this.kohort.ask('DELETE', '/v1/faults') }
}

module.exports = { start, withKohort, Refusal }
