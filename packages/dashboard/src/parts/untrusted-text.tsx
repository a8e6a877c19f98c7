/**
 * Renders text from agents, tasks, files and tools. Always as plain text: markup is never interpreted, only http and
 * https URLs become links, invisible and direction marks are shown, and long text is folded.
 */
import { useId, useState } from 'react'
import { jsonOf, oneLine, pieces, visible } from '../model/text.js'

// The part shown at first; a button shows the rest.
const foldedChars = 600
const foldedLines = 12
// More text would make the browser slow; the rest is cut with a note.
const shownMax = 100_000

export function UntrustedText({ text, mono = false }: { readonly text: string; readonly mono?: boolean }) {
  const [isOpen, setOpen] = useState(false)
  const id = useId()
  const isLong = text.length > foldedChars || text.split('\n', foldedLines + 1).length > foldedLines
  const shown = isLong && !isOpen ? folded(text) : text.slice(0, shownMax)
  const isCut = isOpen && text.length > shownMax
  return (
    <div className="min-w-0">
      <bdi id={id} className={`block whitespace-pre-wrap ${mono ? 'font-mono text-xs' : ''}`}>
        {pieces(visible(shown)).map((piece, at) =>
          piece.href === undefined ? (
            piece.text
          ) : (
            <a key={at} className="link" href={piece.href} target="_blank" rel="noopener noreferrer nofollow external">
              {piece.text}
            </a>
          ),
        )}
        {isLong && !isOpen ? '…' : ''}
        {isCut ? `\n… ${text.length - shownMax} more characters are not shown` : ''}
      </bdi>
      {isLong && (
        <button
          type="button"
          className="link text-xs"
          aria-expanded={isOpen}
          aria-controls={id}
          onClick={() => setOpen(!isOpen)}
        >
          {isOpen ? 'Show less' : 'Show all'}
        </button>
      )}
    </div>
  )
}

function folded(text: string): string {
  return text.slice(0, foldedChars).split('\n').slice(0, foldedLines).join('\n')
}

/** One line, with a longer text as tooltip. */
export function Line({ text, most = 200 }: { readonly text: string; readonly most?: number }) {
  return (
    <bdi className="block truncate" title={oneLine(text, 1_000)}>
      {oneLine(text, most)}
    </bdi>
  )
}

export const Json = ({ value }: { readonly value: unknown }) => <UntrustedText text={jsonOf(value)} mono />
