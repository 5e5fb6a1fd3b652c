// kafkajs: send() resolves, and some of its records are nowhere.
const { Kafka, logLevel } = require('kafkajs')

const brokers = process.env.KAFKA_BOOTSTRAP_SERVERS.split(',')
const kafka = new Kafka({ brokers, logLevel: logLevel.ERROR })

async function main () {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic: 'orders', numPartitions: 3, replicationFactor: 3 }] })
  const producer = kafka.producer()
  await producer.connect()
  const send = value =>
    producer.send({ topic: 'orders', messages: [0, 1, 2].map(partition => ({ partition, value })) })
  await send('first') // each partition has its leader on another node
  const [{ partitions }] = (await admin.fetchTopicMetadata({ topics: ['orders'] })).topics
  const node = partitions.find(each => each.partitionId === 1).leader
  await fetch(`${process.env.KOHORT_HTTP}/v1/partitions/orders/0/move`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ node }),
  })
  await send('second')
  console.log(await admin.fetchTopicOffsets('orders')) // one partition has no second record
  process.exit(0)
}

main()
