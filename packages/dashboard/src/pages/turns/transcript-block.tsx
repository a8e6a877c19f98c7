/** One block of a transcript: text, a tool call with its result, output of a program, or a note that entries were left out. */
import { memo, useState, type ReactNode } from 'react'
import { own } from '../../model/own.js'
import { bytes, oneLine, plural } from '../../model/text.js'
import { timeOfDay } from '../../model/time.js'
import { indented, questionText, type Block } from '../../model/transcript.js'
import { UntrustedText } from '../../parts/untrusted-text.js'

interface BlockProps {
  readonly block: Block
  /** A different one: another worker wrote this block. */
  readonly epochBefore: number
}

/** Rows do not change once they are written: only joined pieces do. */
export const TranscriptBlock = memo(
  BlockRow,
  (before, after) =>
    before.block.text === after.block.text &&
    before.block.result === after.block.result &&
    before.epochBefore === after.epochBefore,
)

function BlockRow({ block, epochBefore }: BlockProps) {
  return (
    <li className="px-3 py-1">
      {epochBefore !== block.epoch && (
        <p className="label my-1 border-t border-line pt-1">The turn continued with epoch {block.epoch}.</p>
      )}
      <div className="grid grid-cols-[56px_minmax(0,1fr)] gap-x-2">
        <span className="label pt-0.5">{block.continued ? '' : timeOfDay(block.at)}</span>
        <div className="min-w-0">
          <Content block={block} />
        </div>
      </div>
    </li>
  )
}

const titles: Readonly<Record<string, string>> = {
  thought: 'Thought',
  question: 'Question',
  answer: 'Answer',
  note: 'Note',
  tool_result: 'Result of a tool',
}

function Content({ block }: { readonly block: Block }) {
  const { kind, text, name, continued, leftOut } = block
  switch (kind) {
    case 'text':
      return <UntrustedText text={text} fold="long" />
    case 'tool_call':
      return <ToolCall block={block} />
    case 'stdout':
    case 'stderr':
      return (
        <div className={`rounded bg-sunk px-2 py-1 ${kind === 'stderr' ? 'text-bad' : 'text-ink-2'}`}>
          {!continued && <Title kind={kind} name={name} />}
          <UntrustedText text={text} mono fold="long" />
        </div>
      )
    case 'truncated':
      return (
        <p className="rounded bg-wait-soft px-2 py-1 text-sm text-wait">
          {leftOut === null
            ? 'Entries were left out here.'
            : `${plural(leftOut.entries, 'entry', 'entries')} (${bytes(leftOut.bytes)}) left out here.`}
        </p>
      )
    default:
      return (
        <div className="text-ink-2">
          {!continued && <Title kind={own(titles, kind) ?? kind} name={name} />}
          <UntrustedText
            text={kind === 'question' ? questionText(text) : text}
            mono={kind === 'tool_result'}
            fold="long"
          />
        </div>
      )
  }
}

const Title = ({ kind, name }: { readonly kind: string; readonly name: string | null }) => (
  <p className="label">
    {kind}
    {name !== null && (
      <>
        {' '}
        <bdi>{oneLine(name, 80)}</bdi>
      </>
    )}
  </p>
)

/** Arguments and result are rendered when the call is opened. */
function ToolCall({ block: { name, text, result } }: { readonly block: Block }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details className="rounded border border-line" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="flex items-baseline gap-2 px-2 py-1">
        <span aria-hidden="true" className="w-3 text-xs text-ink-3">
          {isOpen ? '▾' : '▸'}
        </span>
        <bdi className="max-w-1/2 shrink-0 truncate font-mono text-xs font-medium">{oneLine(name ?? 'tool', 80)}</bdi>
        <bdi className="min-w-0 flex-1 truncate font-mono text-xs text-ink-3">{oneLine(text, 200)}</bdi>
        {result === null && <span className="label">no result yet</span>}
      </summary>
      {isOpen && (
        <div className="space-y-2 border-t border-line px-2 py-2">
          <Part title="Arguments">
            <UntrustedText text={indented(text)} mono />
          </Part>
          {result !== null && (
            <Part title="Result">
              <UntrustedText text={indented(result)} mono />
            </Part>
          )}
        </div>
      )}
    </details>
  )
}

const Part = ({ title, children }: { readonly title: string; readonly children: ReactNode }) => (
  <div>
    <p className="label">{title}</p>
    {children}
  </div>
)
