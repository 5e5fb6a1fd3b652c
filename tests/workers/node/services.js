// The application of a member, and its commands, for any library; lines.py describes both.
'use strict'

const readline = require('node:readline')
const { named, note, parsed, say } = require('./lines')

const LATE = 7

class Service {
  constructor (name = 'after') {
    this.name = name
    this.handled = 0
    this.pending = new Map() // handled, and not committed yet: an offset by partition
  }

  // Handles [partition, offset, key, value]. `commit` takes [partition, offset]; `goesOn`
  // says whether the next record may be handled. Returns the number of handled records.
  async consume (records, commit, goesOn = () => true) {
    if (this.name === 'late') return await this.handleOneByOne(records, commit, goesOn)
    if (this.name === 'before') {
      this.note(records)
      await this.commit(commit)
    }
    say({ event: 'consumed', records })
    if (this.name !== 'before') this.note(records)
    if (this.name === 'after') await this.commit(commit)
    return records.length
  }

  async handleOneByOne (records, commit, goesOn) {
    let count = 0
    for (const record of records) {
      if (!goesOn()) break
      say({ event: 'consumed', records: [record] })
      this.note([record])
      count++
      if (++this.handled % LATE === 0) await this.commit(commit)
    }
    return count
  }

  note (records) {
    for (const [partition, offset] of records) this.pending.set(partition, offset + 1)
  }

  async commit (commit) {
    const offsets = [...this.pending]
    this.pending.clear() // if it fails, the records come again
    try {
      await commit(offsets)
    } catch (error) {
      note(`commit failed: ${named(error)}`)
      throw error
    }
    say({ event: 'committed', offsets })
  }

  // Of the member's partitions.
  keep (held) {
    for (const partition of this.pending.keys()) if (!held.includes(partition)) this.pending.delete(partition)
  }
}

// Answers commands until `close`. A member has join, tell, seek and close.
// `transactions` has Program, fence and read, if the library has them.
async function serve (Member, produce, transactions) {
  let member = null
  say({ event: 'ready' })
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { verb, words } = parsed(line)
    if (verb === 'join') {
      member = words.out ? new transactions.Program(words) : new Member(words)
      await member.join()
    } else if (verb === 'produce') {
      await produce(words)
    } else if (verb === 'fence') {
      await transactions.fence(words)
    } else if (verb === 'read') {
      await transactions.read(words)
    } else if (verb === 'tell') {
      member.tell()
    } else if (verb === 'seek') {
      member.seek(Number(words.partition), words.offset)
    } else if (verb === 'leave') {
      await member.close()
      member = null
      say({ event: 'left' })
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

const run = (...library) => serve(...library).catch(error => {
  say({ event: 'error', text: `${named(error)}: ${error.stack || ''}` })
  process.exit(1)
})

module.exports = { Service, run }
