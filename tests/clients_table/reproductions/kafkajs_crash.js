// kafkajs: a commit by a member that was thrown out ends the consumer for good.
const { Kafka, logLevel } = require('kafkajs')

const brokers = process.env.KAFKA_BOOTSTRAP_SERVERS.split(',')
const kafka = new Kafka({ clientId: 'billing-1', brokers, logLevel: logLevel.ERROR })
const topic = 'orders'

async function main () {
  const producer = kafka.producer()
  await producer.connect()
  const send = () => producer.send({ topic, messages: [{ value: 'a record' }] })
  await send()
  const consumer = kafka.consumer({ groupId: 'billing', heartbeatInterval: 3000 })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    console.log(`restarts: ${payload.restart}, ${payload.error}`)
    process.exit(0)
  })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: ({ partition, message }) =>
      consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }]),
  })
  for (let second = 0; second < 30; second++) {
    await send()
    await new Promise(resolve => setTimeout(resolve, 1000))
    if (second === 8) {
      await fetch(`${process.env.KOHORT_HTTP}/v1/groups/billing/kick`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ client_id: 'billing-1' }),
      })
    }
  }
}

main()
