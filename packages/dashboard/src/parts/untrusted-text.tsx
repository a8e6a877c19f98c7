/**
 * Renders text from agents, tasks, files and tools. Always as plain text: markup is never interpreted, http and https URLs open only
 * after a warning that shows the whole URL, invisible and direction marks are shown, and long text is folded.
 */
import { useId, useState } from 'react'
import { Dialog } from './dialog.js'
import { jsonOf, oneLine, pieces, visible } from '../model/text.js'

// The part shown at first; a button shows the rest.
const folds = { short: { chars: 600, lines: 12 }, long: { chars: 4_000, lines: 60 } } as const
// More text would make the browser slow; the rest is cut with a note.
const shownMax = 100_000

interface UntrustedTextProps {
  readonly text: string
  readonly mono?: boolean
  readonly fold?: keyof typeof folds
}

export function UntrustedText({ text, mono = false, fold = 'short' }: UntrustedTextProps) {
  const [isOpen, setOpen] = useState(false)
  const [link, setLink] = useState<string>()
  const id = useId()
  const { chars, lines } = folds[fold]
  const isLong = text.length > chars || text.split('\n', lines + 1).length > lines
  const shown = isLong && !isOpen ? text.slice(0, chars).split('\n', lines).join('\n') : text.slice(0, shownMax)
  const isCut = isOpen && text.length > shownMax
  return (
    <div className="min-w-0">
      <bdi id={id} className={`block whitespace-pre-wrap ${mono ? 'font-mono text-xs' : ''}`}>
        {pieces(visible(shown)).map((piece, at) =>
          piece.href === undefined ? (
            piece.text
          ) : (
            <button
              key={at}
              type="button"
              className="link text-left break-all"
              title={`Open ${piece.href}`}
              onClick={() => setLink(piece.href)}
            >
              {piece.text}
            </button>
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
      {link !== undefined && <LinkWarning href={link} close={() => setLink(undefined)} />}
    </div>
  )
}

/** Shows where a link of untrusted text leads before it is followed. The other page gets neither a referrer nor this window. */
function LinkWarning({ href, close }: { readonly href: string; readonly close: () => void }) {
  return (
    <Dialog name="Open a link" title="Open this link?" close={close}>
      <p>An agent or a file contains this link. Open it only if you know the site:</p>
      <p className="my-3 font-mono text-sm break-all">{href}</p>
      <a
        className="button button-main"
        href={href}
        target="_blank"
        rel="noopener noreferrer nofollow external"
        referrerPolicy="no-referrer"
        onClick={close}
      >
        Open in a new tab
      </a>
    </Dialog>
  )
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
