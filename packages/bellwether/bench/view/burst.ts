/**
 * A burst: one process creates, writes and closes files in a thousand directories as fast as it can, with a real sensor and a
 * real view. Files that the view does not have after it had time to catch up are lost. Every file is checked by the count and
 * size of its directory; both processes and all files are removed afterwards.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { cli, startViewServer, type ViewServer } from './server.js'
import { round } from './timing.js'

export interface Burst {
  readonly files: number
  /** Missing in the view at the end. */
  readonly lost: number
  /** Missing when the first barrier after the burst passed. */
  readonly late: number
  readonly burst_ms: number
  /** From the close of the last file until the view had all files. */
  readonly caught_up_ms: number
}

const directories = 1_000
const line = 'a line of text\n'
const readyMaxMs = 60_000
// Enough for the scan that follows an overflow.
const catchUpMaxMs = 60_000
const lookMs = 100

export async function burst(files: number): Promise<Burst> {
  const root = mkdtempSync(join(tmpdir(), 'bellwether-bench-burst-'))
  const server = await startViewServer()
  try {
    for (let i = 0; i < directories; i += 1) mkdirSync(join(root, `d${i}`))
    const sensor = spawn(
      process.execPath,
      [cli, 'sensor', '--root', root, '--server', server.url, '--key', server.key, '--id', 'bench'],
      { stdio: ['ignore', 'ignore', 'ignore'] },
    )
    const ended = once(sensor, 'exit')
    try {
      await until('the sensor is ready', readyMaxMs, () => isReady(server))
      const start = performance.now()
      for (let i = 0; i < files; i += 1) {
        const file = openSync(join(root, `d${i % directories}`, `f${i}`), 'wx')
        writeSync(file, line)
        closeSync(file)
      }
      const written = performance.now()
      await server.ask('POST', '/views/bench/sync?wait=20')
      const late = files - (await known(server))
      await until('the view has caught up', catchUpMaxMs, async () => (await known(server)) >= files).catch(
        () => undefined,
      )
      return {
        files,
        lost: files - (await known(server)),
        late,
        burst_ms: round(written - start, 0),
        caught_up_ms: round(performance.now() - written, 0),
      }
    } finally {
      sensor.kill('SIGKILL')
      await ended
    }
  } finally {
    await server.close()
    rmSync(root, { recursive: true, force: true })
  }
}

async function isReady(server: ViewServer): Promise<boolean> {
  const sessions = JSON.parse((await server.ask('GET', '/views/bench/sessions')).toString()) as object
  // A view that is not ready returns 503.
  const stats = await server.ask('GET', '/views/bench/stats').catch(() => undefined)
  return JSON.stringify(sessions).includes('"can_realtime":true') && stats !== undefined
}

/** The number of files that the view has with their full size. */
async function known(server: ViewServer): Promise<number> {
  const { total_files: files, total_size: size } = JSON.parse(
    (await server.ask('GET', '/views/bench/stats')).toString(),
  ) as { total_files: number; total_size: number }
  return Math.min(files, Math.floor(size / line.length))
}

async function until(what: string, maxMs: number, isTrue: () => Promise<boolean>): Promise<void> {
  for (const start = performance.now(); performance.now() - start < maxMs; await pause(lookMs))
    if (await isTrue()) return
  throw new Error(`Not within ${maxMs} ms: ${what}`)
}
