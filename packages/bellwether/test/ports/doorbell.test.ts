/** The doorbell without PostgreSQL: each test plays the processes of one machine, and what their LISTEN connections receive. */
import { createServer } from 'node:net'
import { chmod, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { deferred, systemClock, type Clock } from '@bellwether/base'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openDoorbell, type ListenConnection } from '../../src/ports/bell/doorbell.js'
import { testFolder } from '../support/postgres.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'

/** A LISTEN connection of one process, which the test can lose. */
interface Heard {
  readonly notify: (text: string) => void
  readonly lose: () => void
}

const message = (subject: string) => JSON.stringify({ s: subject, p: {} })

async function machine() {
  const folder = await testFolder()
  const path = join(folder, 'own', 'db.bell')
  const listening: Heard[] = []
  const listen = async (onMessage: (text: string) => void): Promise<ListenConnection> => {
    const closed = deferred<unknown>()
    const lose = () => closed.resolve(new Error('lost'))
    listening.push({ notify: onMessage, lose })
    return { closed: closed.promise, destroy: lose, close: async () => lose() }
  }
  const open = async (clock: Clock = systemClock) => {
    const messages: string[] = []
    const connection = await openDoorbell({
      path,
      listen,
      onMessage: (text) => messages.push(text),
      clock,
      log: quietLog,
    })
    onTestFinished(() => connection.close())
    return { connection, messages }
  }
  return { path, listening, open }
}

describe('the doorbell', () => {
  it('lets one process of a machine listen, and sends the others what they subscribed to', async () => {
    const { listening, open } = await machine()
    const host = await open()
    const coder = await open()
    const writer = await open()
    expect(listening).toHaveLength(1)
    await coder.connection.subscribe!('bw.v1.*.agent.coder.wakeup')
    await writer.connection.subscribe!('bw.v1.*.agent.writer.wakeup')
    await writer.connection.subscribe!('bw.v1.*.end')
    await coder.connection.subscribe!('bw.v1.*.end')
    const sent = [
      'bw.v1.p.agent.coder.wakeup',
      'bw.v1.p.agent.writer.wakeup',
      'bw.v1.p.agent.other.wakeup',
      'bw.v1.p.end',
    ]
    for (const subject of sent) listening[0]!.notify(message(subject))
    for (const text of ['', 'not json', '{"s":1}', `${message('bw.v1.p.end')}\nforged`]) listening[0]!.notify(text)
    await until('the last messages', async () =>
      coder.messages.length === 2 && writer.messages.length === 2 ? true : undefined,
    )
    expect(host.messages.slice(0, 4)).toEqual(sent.map(message))
    expect(coder.messages).toEqual([sent[0]!, sent[3]!].map(message))
    expect(writer.messages).toEqual([sent[1]!, sent[3]!].map(message))
  })

  it('ends its members when the host loses its connection, and the first that opens again listens', async () => {
    const { path, listening, open } = await machine()
    await open()
    const member = await open()
    listening[0]!.lose()
    await member.connection.closed
    await until('the socket is removed', async () =>
      (await readdir(join(path, '..'))).length === 0 ? true : undefined,
    )
    const next = await open()
    expect(next.connection.subscribe).toBeUndefined()
    expect((await open()).connection.subscribe).toBeDefined()
    expect(listening).toHaveLength(2)
  })

  it('replaces a host that accepts connections but does not respond', async () => {
    const { path, listening, open } = await machine()
    await mkdir(join(path, '..'), { mode: 0o700 })
    const frozen = createServer()
    await new Promise<void>((resolve) => frozen.listen(path, resolve))
    onTestFinished(() => void frozen.close())
    // The time in which a host must respond elapses at once.
    const hurried: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms === 2_000 ? 0 : ms, signal) }
    const host = await open(hurried)
    expect(host.connection.subscribe).toBeUndefined()
    expect((await open()).connection.subscribe).toBeDefined()
    expect(listening).toHaveLength(1)
  })

  it('listens alone if other users may use its folder', async () => {
    const { path, listening, open } = await machine()
    await mkdir(join(path, '..'))
    await chmod(join(path, '..'), 0o755)
    await open()
    expect((await open()).connection.subscribe).toBeUndefined()
    expect(listening).toHaveLength(2)
    expect(await readdir(join(path, '..'))).toEqual([])
  })
})
