/** A status: shape, word and colour together. Each is sufficient alone. */
import { appearanceOf, type Tone } from '../model/status.js'
import { oneLine } from '../model/text.js'
import { Glyph } from './glyph.js'

export const toneText: Readonly<Record<Tone, string>> = {
  go: 'text-go',
  wait: 'text-wait',
  start: 'text-start',
  rest: 'text-rest',
  bad: 'text-bad',
  person: 'text-person',
  done: 'text-done',
}

const toneSoft: Readonly<Record<Tone, string>> = {
  go: 'bg-go-soft',
  wait: 'bg-wait-soft',
  start: 'bg-start-soft',
  rest: 'bg-rest-soft',
  bad: 'bg-bad-soft',
  person: 'bg-person-soft',
  done: 'bg-done-soft',
}

export function Status({ word }: { readonly word: string }) {
  const appearance = appearanceOf(word)
  return (
    <span
      className={`inline-flex max-w-full items-center gap-1.5 font-medium ${toneText[appearance.tone]}`}
      title={appearance.means}
    >
      <Glyph shape={appearance.shape} />
      <span className="truncate">{oneLine(appearance.word, 40)}</span>
    </span>
  )
}

export function Chip({
  tone,
  children,
  title,
}: {
  readonly tone: Tone
  readonly children: React.ReactNode
  readonly title?: string
}) {
  return (
    <span
      className={`inline-flex max-w-full items-center gap-1 rounded px-1.5 text-xs leading-5 font-medium ${toneText[tone]} ${toneSoft[tone]}`}
      title={title}
    >
      {children}
    </span>
  )
}
