// An example: a service over kafkajs that bills orders, as a member of the group "billing".
'use strict'

const { Kafka, logLevel } = require('kafkajs')

/** Starts a service; returns its consumer. Each order is billed before its offset is committed. */
async function start (brokers, clientId, bill) {
  const kafka = new Kafka({ brokers, clientId, logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50 } })
  const consumer = kafka.consumer({ groupId: 'billing', heartbeatInterval: 200, maxWaitTimeInMs: 200 })
  await consumer.connect()
  await consumer.subscribe({ topic: 'orders', fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => bill(message.value.toString()) })
  return consumer
}

module.exports = { start }
