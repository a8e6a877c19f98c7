/** A call as a person reads it before it is allowed: the command, the change of a file as a diff, and every other argument. Pure. */

export interface CallLine {
  readonly mark: '$' | '-' | '+' | ' '
  readonly text: string
}

/** All arguments are shown in full: what a person does not see, they cannot allow. */
export function callLines(args: Readonly<Record<string, unknown>>): CallLine[] {
  const lines: CallLine[] = []
  const add = (mark: CallLine['mark'], text: string) => {
    for (const line of text.split('\n')) lines.push({ mark, text: line })
  }
  const rest = { ...args }
  const take = (name: string): string | undefined => {
    const value = rest[name]
    if (typeof value !== 'string') return undefined
    delete rest[name]
    return value
  }
  const command = take('command')
  if (command !== undefined) add('$', command)
  const path = take('file_path')
  if (path !== undefined) add(' ', path)
  const before = take('old_string')
  if (before !== undefined) add('-', before)
  const after = take('new_string') ?? (path === undefined ? undefined : take('content'))
  if (after !== undefined) add('+', after)
  for (const [name, value] of Object.entries(rest)) add(' ', `${name}: ${JSON.stringify(value, null, 2)}`)
  return lines
}
