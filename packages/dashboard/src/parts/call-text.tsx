/** A call before it is allowed: command, diff and every other argument, in full and as plain text. */
import { callLines } from '@bellwether/protocol/call-text'
import { visible } from '../model/text.js'

const tones = { '+': 'text-go', '-': 'text-bad', $: 'font-semibold', ' ': 'text-ink-2' } as const

export function CallText({ args }: { readonly args: Readonly<Record<string, unknown>> }) {
  const lines = callLines(args)
  if (lines.length === 0) return <p className="text-sm text-ink-3">No arguments</p>
  return (
    <pre
      className="max-h-96 overflow-auto rounded border border-line p-2 font-mono text-xs"
      tabIndex={0}
      aria-label="The call"
    >
      {lines.map(({ mark, text }, at) => (
        <bdi key={at} className={`block whitespace-pre-wrap break-all ${tones[mark]}`}>
          {mark} {visible(text)}
        </bdi>
      ))}
    </pre>
  )
}
