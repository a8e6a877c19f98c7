/** Formats a transcript as plain text, entry by entry, for terminals, files and MCP clients. Pure; text of agents is not sanitized here. */

/** The fields of an entry that its text shows. */
export interface TextEntry {
  readonly seq: number
  readonly turn_epoch: number
  readonly created_at: string | Date
  readonly kind: string
  readonly continued: boolean
  readonly call_id: string | null
  readonly name: string | null
  readonly content: string
}

export interface TranscriptText {
  /** The text of the next entries. */
  add(entries: readonly TextEntry[]): string
  /** Ends the last line. */
  end(): string
}

const labels: Readonly<Record<string, string>> = { tool_call: 'call', tool_result: 'result', truncated: '…' }

/** Each entry starts a line with its time, kind and name; an entry that continues the one before it is appended to its text. */
export function transcriptText(): TranscriptText {
  let open = false
  let atLineStart = true
  const write = (text: string) => {
    atLineStart = text.endsWith('\n')
    return text
  }
  return {
    add(entries) {
      let text = ''
      for (const entry of entries) {
        if (entry.continued && open) {
          text += write(entry.content)
          continue
        }
        if (!atLineStart) text += '\n'
        text += write(`${headOf(entry)}${entry.content.includes('\n') ? '\n' : ' '}${entry.content}`)
        open = true
      }
      return text
    },
    end: () => (atLineStart ? '' : write('\n')),
  }
}

function headOf({ created_at, kind, name }: TextEntry): string {
  const time = new Date(created_at).toISOString().slice(11, 19)
  return [time, labels[kind] ?? kind, ...(name === null ? [] : [name])].join(' ')
}
