/**
 * Measures plocate and watchman if apt provides them; this command installs them, npm never does. Their databases, sockets and
 * processes are in the folder of the run and removed afterwards. A missing or failing peer is reported with its reason instead
 * of a figure.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { errorMessage } from '@bellwether/base'
import { filesPerTop, topOf, type Corpus } from './corpus.js'
import { median, mustBe, round, timeCommand } from './timing.js'

interface PeerFigures {
  readonly version: string
  readonly dir_ms: number
  readonly search_ms: number
  readonly index_ms: number
}
export type PeerAnswer = PeerFigures | { readonly missing: string }

const aptMaxMs = 180_000
const repeats = 11

export function measurePeers(
  corpus: Corpus,
  hits: number,
  onProgress: (line: string) => void,
): Record<string, PeerAnswer> {
  const folder = mkdtempSync(join(tmpdir(), 'bellwether-bench-peers-'))
  const attempt = (name: string, run: () => PeerFigures): PeerAnswer => {
    try {
      install(name, onProgress)
      return run()
    } catch (error) {
      return { missing: errorMessage(error) }
    }
  }
  try {
    return {
      plocate: attempt('plocate', () => plocate(corpus, folder, hits)),
      watchman: attempt('watchman', () => watchman(corpus, folder, hits)),
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function install(name: string, onProgress: (line: string) => void): void {
  if (spawnSync(name, ['--version']).status === 0) return
  onProgress(`installing ${name}`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const apt = spawnSync('apt-get', ['install', '-y', '--no-install-recommends', name], { env, timeout: aptMaxMs })
  if (apt.status !== 0)
    throw new Error(`Cannot install ${name} with apt: ${apt.stderr?.toString().trim().split('\n').at(-1)}`)
}

const version = (name: string): string => timeCommand(name, ['--version']).text.split('\n')[0]!.trim()
const top = topOf(7)
const inTop = filesPerTop + 4

function plocate({ root }: Corpus, folder: string, hits: number): PeerFigures {
  const database = join(folder, 'plocate.db')
  const options = ['--require-visibility', '0', '--prunepaths', '', '--prunenames', '', '--prune-bind-mounts', '0']
  const index = timeCommand('updatedb', [...options, '-U', root, '-o', database])
  const ask = (pattern: string, lines: number, flags: readonly string[]) => () =>
    timeCommand('plocate', ['-d', database, ...flags, pattern], lines).ms
  return {
    version: version('plocate'),
    dir_ms: timed(ask(`${root}${top}/`, inTop, [])),
    search_ms: timed(ask('f*77777.dat', hits, ['-b'])),
    index_ms: round(index.ms),
  }
}

function watchman({ root, files }: Corpus, folder: string, hits: number): PeerFigures {
  const place = [
    '--sockname',
    join(folder, 'sock'),
    '--statefile',
    join(folder, 'state'),
    '--logfile',
    join(folder, 'log'),
  ]
  const ask = (...command: unknown[]) => {
    const { ms, text } = timeCommand('watchman', [...place, '--no-pretty', '-j'], undefined, JSON.stringify(command))
    const answer = JSON.parse(text) as { error?: string; files?: unknown[] }
    if (answer.error !== undefined) throw new Error(answer.error.slice(0, 300))
    return { ms, count: answer.files?.length ?? 0 }
  }
  const query = (wanted: number, question: object) => () => {
    const { ms, count } = ask('query', root, question)
    mustBe('files by watchman', wanted, count)
    return ms
  }
  const fields = ['name', 'size', 'mtime', 'type']
  try {
    const index = ask('watch', root)
    query(files / 1_000, { expression: ['name', 's0'], fields: ['name'] })
    return {
      version: version('watchman'),
      dir_ms: timed(query(inTop, { path: [top.slice(1)], fields })),
      search_ms: timed(query(hits, { expression: ['match', 'f*77777.dat'], fields })),
      index_ms: round(index.ms),
    }
  } finally {
    spawnSync('watchman', [...place, 'shutdown-server'], { timeout: 10_000 })
  }
}

function timed(run: () => number): number {
  run()
  return round(median(Array.from({ length: repeats }, run)))
}
