// Events and clients, for all programs; lines.py describes the events.
'use strict'

const { Kafka, logLevel } = require('kafkajs')

const say = event =>
  process.stdout.write(JSON.stringify({ ...event, at_ns: Date.now() * 1e6 }) + '\n')

const note = text => say({ event: 'note', text })

// An error with the error code that it wraps, by the name of the protocol.
const named = error => {
  const type = error.type || error.cause?.type || error.originalError?.type
  return type ? `${type} (${error})` : String(error)
}

// Logged errors go to the history; scenes check events, not logs.
const kafka = (bootstrap, clientId, { request, plain }) =>
  new Kafka({
    clientId,
    brokers: bootstrap.split(','),
    logLevel: logLevel.ERROR,
    logCreator: () => ({ log }) => say({ event: 'log', text: log.message + (log.error ? `: ${log.error}` : '') }),
    ...(request ? { requestTimeout: Number(request) } : {}),
    ...(plain ? {} : { retry: { retries: 20, initialRetryTime: 100, maxRetryTime: 1000 } }),
  })

// A command: its verb, and its words key=value.
const parsed = line => {
  const [verb, ...rest] = line.split(' ')
  const words = Object.fromEntries(rest.map(word => {
    const at = word.indexOf('=')
    return [word.slice(0, at), word.slice(at + 1)]
  }))
  return { verb, words }
}

module.exports = { kafka, named, note, parsed, say }
