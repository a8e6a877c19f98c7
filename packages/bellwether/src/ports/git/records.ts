/**
 * What Bellwether knows about the worktree of a task, as one small file per task inside the repository. A record is written before its
 * worktree and branch exist and removed after them, so that a process that was killed leaves nothing that no record names.
 */
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode, parseJson } from '@bellwether/base'
import { z } from 'zod'

const shape = z.object({
  taskId: z.string(),
  /** Of the task: another task with the same id, in a log that was started again, has another time. */
  createdAt: z.string(),
  /** The task root. */
  root: z.string(),
  /** The folder of the worktree. */
  path: z.string(),
  /** The full name of the branch that the task's changes are merged into. */
  base: z.string(),
  /** The commit of the base when the worktree was made. */
  fork: z.string(),
  /** Whether the worktree is complete. */
  ready: z.boolean(),
})
export type WorktreeRecord = z.output<typeof shape>

const folderIn = (common: string) => join(common, 'bellwether')
const suffix = '.json'

/** The name of a task's branch and folder: its id, or a readable part of it with a hash. */
export function worktreeName(taskId: string, prefix: string): string {
  const full = `${prefix.replaceAll('/', '-')}${prefix === '' ? '' : '-'}${taskId}`
  if (/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/.test(full)) return full
  const hash = createHash('sha256').update(`${prefix}\0${taskId}`).digest('hex').slice(0, 12)
  const readable = full.replaceAll(/[^A-Za-z0-9_-]+/g, '-').replace(/^-+/, '')
  return `${readable.slice(0, 60) || 'task'}-${hash}`
}

/** Undefined: there is none, or it cannot be read as one. */
export async function readRecord(common: string, name: string): Promise<WorktreeRecord | undefined> {
  try {
    const text = await readFile(join(folderIn(common), `${name}${suffix}`), 'utf8')
    return shape.safeParse(parseJson(text)).data
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

export async function writeRecord(common: string, name: string, record: WorktreeRecord): Promise<void> {
  const path = join(folderIn(common), `${name}${suffix}`)
  await mkdir(folderIn(common), { recursive: true })
  const draft = `${path}.${process.pid}.draft`
  await writeFile(draft, `${JSON.stringify(record)}\n`)
  await rename(draft, path)
}

export async function removeRecord(common: string, name: string): Promise<void> {
  await rm(join(folderIn(common), `${name}${suffix}`), { force: true })
}

// More tasks than run in one repository; a longer list is read in parts, as the first ones are removed.
const recordsMax = 10_000

export async function listRecords(common: string): Promise<readonly WorktreeRecord[]> {
  let names: string[]
  try {
    names = await readdir(folderIn(common))
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return []
    throw error
  }
  const found: WorktreeRecord[] = []
  for (const file of names.filter((name) => name.endsWith(suffix)).slice(0, recordsMax)) {
    const record = await readRecord(common, file.slice(0, -suffix.length))
    if (record !== undefined) found.push(record)
  }
  return found
}
