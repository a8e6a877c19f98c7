/** Servers that we do not have at hand, played by a few lines of the wire protocol: an old one, and a pooler. */
import { createServer, type Server } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { openDatabase } from '../../src/ports/database/pool.js'

let server: Server | undefined
afterEach(() => server?.close())

function message(type: string, ...parts: (string | number[])[]): Buffer {
  const body = Buffer.concat(
    parts.map((part) => (typeof part === 'string' ? Buffer.from(`${part}\0`) : Buffer.from(part))),
  )
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

const ready = message('Z', [0x49])
const column = [0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0]

function answer(version: string, idle: string): Buffer {
  const value = (text: string) => [0, 0, 0, text.length, ...Buffer.from(text)]
  return Buffer.concat([
    message('T', [0, 2], 'version', column, 'idle', column),
    message('D', [0, 2], value(version), value(idle)),
    message('C', 'SELECT 1'),
    ready,
  ])
}

/** Answers every query with these settings; a pooler refuses start-up parameters, as PgBouncer does. */
async function pretend(settings: { version: string; idle: string; pooler: boolean }): Promise<string> {
  server = createServer((socket) => {
    let greeted = false
    socket.on('data', (data) => {
      if (!greeted && settings.pooler && data.includes('statement_timeout')) {
        const text = 'Munsupported startup parameter: statement_timeout'
        socket.end(message('E', 'SFATAL', 'C08P01', text, [0]))
      } else if (!greeted) {
        greeted = true
        socket.write(Buffer.concat([message('R', [0, 0, 0, 0]), ready]))
      } else if (data[0] === 'Q'.charCodeAt(0)) {
        socket.write(answer(settings.version, settings.idle))
      }
    })
    socket.on('error', () => undefined)
  })
  const listening = server
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve))
  const address = listening.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return `postgresql://user:secret@127.0.0.1:${address.port}/name`
}

describe('opening', () => {
  it('rejects PostgreSQL before 15 and names the version', async () => {
    const url = await pretend({ version: '140011', idle: '30s', pooler: false })
    await expect(openDatabase({ url })).rejects.toMatchObject({
      name: 'InvalidInput',
      code: 'database_version',
      message: expect.stringContaining('PostgreSQL 14 is too old') as string,
    })
  })

  it('works through a pooler that rejects start-up parameters if the role sets the timeouts', async () => {
    const url = await pretend({ version: '160004', idle: '30s', pooler: true })
    const db = await openDatabase({ url })
    expect(await db.query({ text: 'select' })).toEqual([{ version: '160004', idle: '30s' }])
    await db.close()
  })

  it('rejects a database without a limit on idle transactions', async () => {
    const url = await pretend({ version: '160004', idle: '0', pooler: true })
    await expect(openDatabase({ url })).rejects.toMatchObject({ code: 'database_unbounded' })
  })
})
