/** A unified diff by file and line. Pure. Text that is not a diff is shown as it is, in one part without a path. */
export interface DiffLine {
  readonly kind: 'added' | 'removed' | 'place' | 'same'
  readonly text: string
  /** In the new version of the file; null: the line is not in it. */
  readonly line: number | null
}

export interface FileDiff {
  /** Null: text before the first file. */
  readonly path: string | null
  readonly lines: readonly DiffLine[]
  readonly added: number
  readonly removed: number
}

const place = /^@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@/
const oldName = /^--- (?:a\/.*|\/dev\/null|".*")$/
const newName = /^\+\+\+ (?:b\/(.*)|\/dev\/null|"b\/(.*)")$/
const header =
  /^(?:diff --git |index |new file |deleted file |old mode |new mode |similarity |rename |copy |Binary files )/

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

export function fileDiffs(diff: string): readonly FileDiff[] {
  const files: (Mutable<FileDiff> & { lines: DiffLine[] })[] = []
  const open = (path: string | null) => files[files.push({ path, lines: [], added: 0, removed: 0 }) - 1]!
  const texts = diff.split('\n')
  let next = 0
  let isInBody = false
  let gone = ''
  for (const [at, text] of texts.entries()) {
    const started = place.exec(text)
    if (started !== null) {
      next = Number(started[1])
      isInBody = true
      ;(files.at(-1) ?? open(null)).lines.push({ kind: 'place', text, line: null })
      continue
    }
    // Inside a hunk, a removed line may look like the name of a file: it is one if the next line names the new file.
    if (oldName.test(text) && newName.test(texts[at + 1] ?? '')) {
      isInBody = false
      gone = text.slice('--- a/'.length)
      continue
    }
    const named = isInBody ? null : newName.exec(text)
    if (named !== null) {
      open(named[1] ?? named[2] ?? gone)
      continue
    }
    if (header.test(text)) {
      isInBody = false
      if (text.startsWith('Binary files ')) open(null).lines.push({ kind: 'same', text, line: null })
      continue
    }
    if (text === '' && at === texts.length - 1) continue
    const file = files.at(-1) ?? open(null)
    const kind = isInBody && text.startsWith('+') ? 'added' : isInBody && text.startsWith('-') ? 'removed' : 'same'
    const isNote = !isInBody || text.startsWith('\\')
    file.lines.push({ kind, text, line: kind === 'removed' || isNote ? null : next })
    if (kind === 'added') file.added += 1
    if (kind === 'removed') file.removed += 1
    else if (!isNote) next += 1
  }
  return files
}
