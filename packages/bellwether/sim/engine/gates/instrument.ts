/**
 * Puts a yield point, `assert sim.gate('name:3 update');`, before every statement of a PL/pgSQL body that can use the database. It is an `assert`
 * and not a `perform`, because an assert changes neither FOUND nor ROW_COUNT: the instrumented body behaves like the plain one. Statements
 * that only move variables (`x := y`, `if not found`, `return`) commute with every other fibre and get no gate. An ELSIF or WHILE condition
 * cannot have one: it runs in the step before. install.ts installs the result.
 */
import { scan, type Token } from './scan.js'

const words = (text: string): ReadonlySet<string> => new Set(text.split(' '))

/** Words that end a list of statements; none of them starts a statement. */
const closers = words('end else elsif elseif when exception')
const control = words('if case while loop for foreach return exit continue null raise get')
const reading = words('select query execute table values insert update delete merge from with')
/** Words before a parenthesis that do not call the database. Any other word might be a verb. */
const pure = words(
  'if elsif elseif while when and or not in any all some array row case then else is return exists coalesce nullif ' +
    'greatest least cardinality array_length array_append format concat length lower upper to_jsonb ' +
    'jsonb_build_object json_build_object jsonb_array_length make_interval text int integer bigint',
)

export function instrument(source: string, name: string): string {
  const tokens = scan(source)
  const gates: { at: number; text: string }[] = []
  let i = 0

  const word = (k = i): string | undefined => (tokens[k]?.kind === 'word' ? tokens[k].text : undefined)
  const is = (text: string, k = i): boolean =>
    tokens[k] !== undefined && tokens[k].kind !== 'literal' && tokens[k].text === text

  /** Moves past `stop`, outside parentheses and CASE expressions; returns the skipped tokens. */
  const skipPast = (stop: string): Token[] => {
    const from = i
    let depth = 0
    let cases = 0
    for (; i < tokens.length; i += 1) {
      if (depth === 0 && cases === 0 && is(stop)) {
        i += 1
        return tokens.slice(from, i - 1)
      }
      if (is('(') || is('[')) depth += 1
      else if (is(')') || is(']')) depth -= 1
      else if (word() === 'case') cases += 1
      else if (word() === 'end' && cases > 0) cases -= 1
    }
    throw new Error(
      `cannot instrument ${name}: no "${stop}" after "${source.slice(tokens[from]?.start, (tokens[from]?.start ?? 0) + 60)}"`,
    )
  }

  const gate = (at: number, head: readonly Token[]): void => {
    const first = head[0]
    if (first === undefined || inert(head)) return
    const second = head[1]
    const what = first.text === 'return' && second?.kind === 'word' ? `${first.text} ${second.text}` : first.text
    const label = `${name}:${gates.length + 1} ${first.kind === 'word' ? what : ''}`.trim().replaceAll("'", "''")
    gates.push({ at, text: `assert sim.gate('${label}'); ` })
  }

  const statements = (): void => {
    while (i < tokens.length && !closers.has(word() ?? '')) statement()
  }

  const block = (): void => {
    if (word() === 'declare') skipPast('begin')
    else i += 1
    statements()
    if (word() === 'exception') {
      i += 1
      while (word() === 'when') {
        skipPast('then')
        statements()
      }
    }
    finish()
  }

  /** Moves past `end if;`, `end case;`, `end loop label;`; the outermost block may end without a semicolon. */
  const finish = (): void => {
    while (i < tokens.length && !is(';')) i += 1
    i += 1
  }

  const branches = (): void => {
    for (statements(); word() !== 'end'; statements()) {
      if (i >= tokens.length) throw new Error(`cannot instrument ${name}: a branch never ends`)
      if (word() === 'else') i += 1
      else {
        i += 1
        skipPast('then')
      }
    }
    finish()
  }

  const statement = (): void => {
    const at = tokens[i]!.start
    while (is('<<')) i += 3
    const first = word()
    const head = i
    if (first === 'declare' || first === 'begin') return block()
    if (first === 'if') {
      skipPast('then')
      gate(at, tokens.slice(head, i - 1))
      return branches()
    }
    if (first === 'case') {
      i += 1
      skipPast('when')
      skipPast('then')
      gate(at, tokens.slice(head, i - 1))
      return branches()
    }
    if (first === 'loop' || first === 'while' || first === 'for' || first === 'foreach') {
      skipPast('loop')
      gate(at, tokens.slice(head, i - 1))
      statements()
      return finish()
    }
    gate(at, skipPast(';'))
  }

  while (i < tokens.length && word() !== 'declare' && word() !== 'begin' && !is('<<')) i += 1
  if (is('<<')) i += 3
  block()

  let out = ''
  let from = 0
  for (const { at, text } of gates) {
    out += source.slice(from, at) + text
    from = at
  }
  return out + source.slice(from)
}

/** Whether the statement only uses variables. */
function inert(head: readonly Token[]): boolean {
  const first = head[0]!.text
  if (!control.has(first) && !head.some((token) => token.kind === 'mark' && token.text === ':=')) return false
  return head.every((token, k) => {
    if (token.kind === 'word') return !reading.has(token.text)
    if (token.kind !== 'mark' || token.text !== '(') return true
    const before = head[k - 1]
    if (before === undefined || before.kind === 'mark') return true
    if (before.kind !== 'word') return false
    // `state.now()` is included, because time moves only between steps.
    return before.text === 'now' || (pure.has(before.text) && head[k - 2]?.text !== '.')
  })
}
