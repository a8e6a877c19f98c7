import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TurnFile } from '@bellwether/protocol/http'
import { expect, it, onTestFinished } from 'vitest'
import { gitHistory } from '../../ports/git.js'
import { turnChanges } from './turn-changes.js'

const startedAt = new Date('2026-05-01T10:00:00Z')
const endedAt = new Date('2026-05-01T10:05:00Z')
const within = new Date('2026-05-01T10:02:00Z')
const later = new Date('2026-05-01T11:00:00Z')

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'bw-turn-changes-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

function repository(files: Readonly<Record<string, string>>) {
  const path = folder()
  const git = (at: Date, ...args: readonly string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], {
      cwd: path,
      env: { ...process.env, GIT_COMMITTER_DATE: at.toISOString(), GIT_AUTHOR_DATE: at.toISOString() },
    })
  for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text)
  git(new Date('2026-04-01T00:00:00Z'), 'init', '-q')
  git(new Date('2026-04-01T00:00:00Z'), 'add', '.')
  git(new Date('2026-04-01T00:00:00Z'), 'commit', '-qm', 'first')
  return { path, git }
}

/** Writes a file and says what a view knows about it. */
function written(root: string, path: string, text: string, at: Date, more: Partial<TurnFile> = {}): TurnFile {
  writeFileSync(join(root, path), text)
  utimesSync(join(root, path), at, at)
  const { size, mtimeMs } = statSync(join(root, path))
  return { ...seen(path), found: true, size, modified_time: mtimeMs / 1_000, ...more }
}

const seen = (path: string): TurnFile => ({
  path: `/${path}`,
  how: 'changed',
  certainty: 'only_turn',
  other_turns: [],
  kind: 'file',
  view: 'project',
  source_id: 'default',
  found: false,
  size: null,
  modified_time: null,
  integrity_suspect: null,
})

const changes = (path: string, files: readonly TurnFile[]) =>
  turnChanges({ root: path, git: gitHistory(path) }, { startedAt, endedAt, files })

it('compares the files that a view saw change with the commit at the start of the turn, even if the turn committed', async () => {
  const { path, git } = repository({ 'a.txt': 'one\n', 'gone.txt': 'x\n', 'same.txt': 's\n' })
  const files = [
    written(path, 'a.txt', 'two\n', within),
    written(path, 'same.txt', 's\n', within),
    written(path, 'new.txt', 'new\n', within, { how: 'claimed', certainty: 'claimed_and_seen' }),
    { ...seen('gone.txt'), how: 'deleted' as const },
  ]
  rmSync(join(path, 'gone.txt'))
  git(within, 'commit', '-qam', 'second')
  expect(await changes(path, files)).toMatchObject({
    files: [
      { path: 'a.txt', change: 'changed', claimed: false },
      { path: 'new.txt', change: 'added', claimed: true },
      { path: 'gone.txt', change: 'deleted', claimed: false },
    ],
    diff: [
      '--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two',
      '--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new',
      '--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x',
    ].join('\n'),
    note: null,
  })
})

it('does not compare a file that changed again after the turn, or that the disk has in another form than the view', async () => {
  const { path } = repository({ 'a.txt': 'one\n', 'b.txt': 'one\n', 'c.txt': 'one\n' })
  const stale = written(path, 'b.txt', 'two\n', within)
  writeFileSync(join(path, 'b.txt'), 'someone else\n')
  const back = { ...seen('c.txt'), how: 'deleted' as const }
  const found = await changes(path, [written(path, 'a.txt', 'two\n', later), stale, back])
  expect(found).toMatchObject({ diff: '', files: [{ change: null }, { change: null }, { change: null }] })
  expect(found.note).toBe('3 of the files changed again after the turn, and are not compared')
})

it('shows no content of a new file that the agent did not name, of private files, or of files outside of the folder', async () => {
  const { path } = repository({ 'a.txt': 'one\n' })
  const outside = folder()
  writeFileSync(join(outside, 'key'), 'KEY=hunter2\n')
  const files = [
    written(path, '.env', 'KEY=hunter2\n', within),
    { ...seen('.bellwether/admin-key'), found: true },
    { ...seen(`../${outside.split('/').at(-1)}/key`), found: true, size: 12, modified_time: within.getTime() / 1_000 },
  ]
  const found = await changes(path, files)
  expect(found.files[0]).toEqual({ path: '.env', change: 'added', claimed: false })
  expect(JSON.stringify(found)).not.toMatch(/hunter2|admin-key/)
})

it('is a list with the reason if the folder is not a repository, and says if no file is known', async () => {
  const path = folder()
  expect(await changes(path, [written(path, 'a.txt', 'one\n', within)])).toMatchObject({
    commit: null,
    diff: null,
    files: [{ path: 'a.txt', change: null }],
    note: expect.stringContaining('not a git repository') as string,
  })
  expect(await changes(path, [])).toMatchObject({ files: [], note: 'no view saw a file change while it ran' })
})
