// A worker over @platformatic/kafka; lines.py describes the commands and events.
import { Consumer } from '@platformatic/kafka'

import { say } from './lines.js'
import { Service, run } from './services.js'

class Member {
  constructor (words) {
    if (words.assignor !== 'roundrobin') throw new Error(`@platformatic/kafka has no assignor ${words.assignor}`)
    this.topic = words.topic
    this.fallback = words.reset || 'earliest'
    this.service = new Service(words.service)
    this.consumer = new Consumer({
      groupId: words.group,
      clientId: words.client,
      bootstrapBrokers: words.bootstrap.split(','),
      sessionTimeout: Number(words.session),
      rebalanceTimeout: Number(words.poll || words.session),
      heartbeatInterval: Number(words.heartbeat),
      maxWaitTime: 200,
      autocommit: words.service === 'auto',
      ...(words.instance ? { groupInstanceId: words.instance } : {}),
    })
  }

  async join () {
    const { consumer, service, topic, fallback } = this
    consumer.on('consumer:group:join', () => {
      service.keep(this.held())
      this.owns('assigned')
    })
    this.stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: fallback })
    this.done = this.consume().catch(error => say({ event: 'error', text: String(error) }))
  }

  async consume () {
    for await (const { partition, offset, key, value } of this.stream) {
      const record = [partition, Number(offset), String(key ?? ''), String(value)]
      // A refused commit was tried again; the next one has its offset as well.
      await this.service.consume([record], ends => this.commit(ends)).catch(() => {})
    }
  }

  commit (ends) {
    const offsets = ends.map(([partition, end]) =>
      ({ topic: this.topic, partition, offset: BigInt(end), leaderEpoch: -1 }))
    return this.consumer.commit({ offsets })
  }

  held () {
    const found = this.consumer.assignments.find(each => each.topic === this.topic)
    return found ? [...found.partitions].sort((a, b) => a - b) : []
  }

  owns (why) {
    say({ event: 'owns', why, partitions: this.held(), generation: this.consumer.generationId })
  }

  tell () {
    this.owns('told')
  }

  // Handles what the stream holds, and leaves.
  async close () {
    await Promise.all([this.stream.close(), this.done])
    await this.consumer.close()
  }
}

const produce = () => { throw new Error('the worker does not produce') }

run(Member, produce)
