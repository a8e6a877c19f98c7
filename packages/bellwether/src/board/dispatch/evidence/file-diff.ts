/** The diff of files by their content before and after, cut to a length. Pure. */
import type { ChangedFile } from '@bellwether/protocol/http'
import { utf8 } from '../../policies/inside.js'
import { unifiedDiff } from './unified-diff.js'

/** Null: it exists, but is too large or not a file. Undefined: it does not exist. */
export type Content = Buffer | null | undefined

/** Null: the file is as it was, or it was claimed and never existed. */
export function changeOf(old: Content, now: Content): ChangedFile['change'] {
  if (now === undefined) return old === undefined ? null : 'deleted'
  if (old === undefined) return 'added'
  return now !== null && old?.equals(now) === true ? null : 'changed'
}

interface Diff {
  add(path: string, old: Content, now: Content): void
  end(): { readonly diff: string; readonly isCut: boolean }
}

export function openDiff(maxChars: number): Diff {
  const diffs: string[] = []
  let isCut = false
  let length = 0
  return {
    add(path, old, now) {
      const text = length >= maxChars ? null : fileDiff(path, old, now)
      if (text === null || length + text.length > maxChars) isCut = true
      if (text !== null) diffs.push(text.slice(0, maxChars - length))
      length += text?.length ?? 0
    },
    end: () => ({ diff: diffs.join('\n').toWellFormed(), isCut }),
  }
}

function fileDiff(path: string, old: Content, now: Content): string {
  const names = `--- ${old === undefined ? '/dev/null' : `a/${path}`}\n+++ ${now === undefined ? '/dev/null' : `b/${path}`}`
  const before = old === undefined ? '' : textOf(old)
  const after = now === undefined ? '' : textOf(now)
  return `${names}\n${before === null || after === null ? 'The content is not text, or too large.' : unifiedDiff(before, after)}`
}

function textOf(bytes: Buffer | null): string | null {
  return bytes === null || bytes.includes(0) ? null : (utf8(bytes) ?? null)
}
