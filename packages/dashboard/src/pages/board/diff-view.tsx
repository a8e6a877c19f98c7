/** A diff by file, with line numbers. If `comments` is given, each line of the new version takes a comment for the next run. */
import { useMemo, useState } from 'react'
import { fileDiffs, type DiffLine, type FileDiff } from '../../model/diff/diff.js'
import { highlighterFor } from '../../model/diff/highlight.js'
import { oneLine, plural, visible } from '../../model/text.js'
import type { LineComment } from '../../api/types.js'

export interface Comments {
  readonly all: readonly LineComment[]
  add(comment: LineComment): void
  remove(comment: LineComment): void
}

const lineTones = { added: 'bg-done-soft', removed: 'bg-bad-soft', place: 'text-start', same: '' }
const signTones = { added: 'text-done', removed: 'text-bad', place: '', same: '' }
/** What a screen reader says before a line. */
const spoken = { added: 'added: ', removed: 'removed: ', place: '', same: '' }
const tokenTones = {
  comment: 'text-ink-3 italic',
  text: 'text-go',
  number: 'text-wait',
  word: 'text-person',
  plain: '',
}
const quoteMax = 300

export function DiffView({ diff, comments }: { readonly diff: string; readonly comments?: Comments | undefined }) {
  return (
    <div role="group" aria-label="Diff" className="mt-1 space-y-2">
      {fileDiffs(diff).map((file, at) => (
        <FileView key={at} file={file} comments={file.path === null ? undefined : comments} />
      ))}
    </div>
  )
}

function FileView({ file, comments }: { readonly file: FileDiff; readonly comments: Comments | undefined }) {
  const [commented, setCommented] = useState<number | null>(null)
  const name = file.path === null ? 'Other' : oneLine(file.path, 300)
  const highlight = useMemo(() => highlighterFor(file.path ?? ''), [file.path])
  return (
    <details open className="rounded border border-line">
      <summary className="flex items-center gap-3 bg-sunk px-2 py-1">
        <bdi className="min-w-0 flex-1 truncate font-mono text-xs font-medium">{name}</bdi>
        <span className="text-xs text-done">+{file.added}</span>
        <span className="text-xs text-bad">−{file.removed}</span>
      </summary>
      <div className="max-h-96 overflow-auto" tabIndex={0} role="group" aria-label={`Diff of ${name}`}>
        <div className="w-max min-w-full font-mono text-xs">
          {file.lines.map((line, at) => (
            <div key={at}>
              <Line
                line={line}
                name={name}
                highlight={highlight}
                comment={comments === undefined || line.line === null ? undefined : () => setCommented(at)}
              />
              {comments !== undefined && (
                <CommentsOf
                  line={line}
                  path={file.path ?? ''}
                  comments={comments}
                  isOpen={commented === at}
                  close={() => setCommented(null)}
                />
              )}
            </div>
          ))}
        </div>
      </div>
    </details>
  )
}

interface LineProps {
  readonly line: DiffLine
  readonly name: string
  readonly highlight: ReturnType<typeof highlighterFor>
  readonly comment: (() => void) | undefined
}

function Line({ line: { kind, text, line }, name, highlight, comment }: LineProps) {
  // In a hunk, the first character says what happened to the line.
  const isSigned = line !== null || kind === 'removed'
  const code = visible(isSigned ? text.slice(1) : text)
  return (
    <div className={`flex ${lineTones[kind]}`}>
      {comment === undefined ? (
        <span className="w-12 shrink-0 pr-2 text-right text-ink-3 select-none">{line ?? ''}</span>
      ) : (
        <button
          type="button"
          className="w-12 shrink-0 pr-2 text-right text-ink-3 underline decoration-dotted hover:text-ink"
          aria-label={`Comment on line ${line} of ${name}`}
          onClick={comment}
        >
          {line}
        </button>
      )}
      {spoken[kind] !== '' && <span className="sr-only">{spoken[kind]}</span>}
      <bdi className="whitespace-pre">
        {isSigned && (
          <span className={signTones[kind]} aria-hidden>
            {text.slice(0, 1)}
          </span>
        )}
        {highlight === undefined || !isSigned
          ? code || ' '
          : highlight(code).map((token, at) => (
              <span key={at} className={tokenTones[token.kind]}>
                {token.text}
              </span>
            ))}
      </bdi>
    </div>
  )
}

interface CommentsOfProps {
  readonly line: DiffLine
  readonly path: string
  readonly comments: Comments
  readonly isOpen: boolean
  readonly close: () => void
}

function CommentsOf({ line: { line, text }, path, comments, isOpen, close }: CommentsOfProps) {
  const [draft, setDraft] = useState('')
  const own = comments.all.filter((one) => one.path === path && one.line === line)
  if (line === null || (own.length === 0 && !isOpen)) return null
  const save = () => {
    comments.add({ path, line, quote: visible(text).slice(0, quoteMax), text: draft.trim() })
    setDraft('')
    close()
  }
  return (
    <div className="sticky left-0 w-[min(100%,36rem)] space-y-1 border-y border-line bg-panel px-3 py-2 font-sans text-sm">
      {own.map((one) => (
        <p key={one.text} className="flex items-start gap-2">
          <span className="min-w-0 flex-1 break-words whitespace-pre-wrap">{visible(one.text)}</span>
          <button type="button" className="link" onClick={() => comments.remove(one)}>
            Remove
          </button>
        </p>
      ))}
      {isOpen && (
        <>
          <textarea
            autoFocus
            className="field w-full"
            rows={2}
            maxLength={1_000}
            aria-label={`Comment on line ${line} of ${oneLine(path, 200)}`}
            value={draft}
            onChange={(event) => setDraft(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === 'Escape') {
                // Or the window around it would close, with all comments.
                event.preventDefault()
                event.stopPropagation()
                close()
              }
              if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && draft.trim() !== '') save()
            }}
          />
          <span className="flex gap-2">
            <button type="button" className="button" disabled={draft.trim() === ''} onClick={save}>
              Keep the comment
            </button>
            <button type="button" className="button" onClick={close}>
              Cancel
            </button>
          </span>
        </>
      )}
    </div>
  )
}

/** Says what happens to the comments. */
export function CommentNote({ count }: { readonly count: number }) {
  return (
    <p className="text-sm text-ink-2">
      {count === 0
        ? 'Select the number of a line to comment on it. The next run gets your comments.'
        : `${plural(count, 'comment')}: the next run gets them when you try again or send it back.`}
    </p>
  )
}
