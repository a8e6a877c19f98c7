/**
 * Checks the style that a machine can check. Each rule first refuses planted offences and accepts similar code that is
 * right; then the whole tree is checked against all rules.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { clockDefinition, folderMax, largeFolders, rules } from './tidy-rules.js'
import { scan, type SourceFile, viewSql, viewTypeScript } from './tidy.js'

interface Example {
  readonly path: string
  readonly bad: readonly string[]
  readonly good: readonly string[]
  /** Places where the rule does not apply: the bad examples are accepted there. */
  readonly free?: readonly string[]
}

const kernel = 'packages/bellwether/src/kernel/x.ts'
const kernelSql = 'packages/bellwether/src/kernel/x.sql'
const port = 'packages/bellwether/src/ports/x.ts'
const test = 'packages/bellwether/test/x.test.ts'
const support = 'packages/bellwether/test/support/x.ts'
const bench = 'packages/bellwether/bench/x.ts'
const clock =
  'create or replace function state.now() returns timestamptz language sql as $$ select clock_timestamp() $$;'

const quotedClock = `create function state.now() returns timestamptz language sql as 'select clock_timestamp()';`

const examples: Readonly<Record<string, Example>> = {
  'one-clock': {
    path: kernel,
    bad: [
      'Date.now()',
      'new Date()',
      'new Date',
      'new Date( )',
      'performance.now()',
      'process.hrtime.bigint()',
      '`${Date.now()}`',
    ],
    good: [
      'new Date(ms)',
      'clock.wallMs()',
      '// Date.now()',
      `'Date.now()'`,
      '/* new Date() */',
      'let d: Date',
      'new Date(\n  row.at)',
    ],
    free: [port, bench],
  },
  'one-timer': {
    path: 'packages/bellwether/sim/x.ts',
    bad: ['setTimeout(f, 1)', 'setInterval(f, 1)', 'globalThis.setTimeout(f)', 'AbortSignal.timeout(5)'],
    good: ['clock.sleep(5)', 'clearTimeout(t)', 'const suspend_timeout_seconds = 1', '/** setTimeout */'],
    free: [port],
  },
  'one-chance': {
    path: 'packages/sensor/src/x.ts',
    bad: ['Math.random()', 'randomUUID()', 'crypto.randomUUID()', 'randomBytes(8)', 'crypto.getRandomValues(a)'],
    good: ['random.next()', 'Math.round(1)', 'ids.next()'],
    free: [port, test],
  },
  'one-reader-of-the-environment': {
    path: kernel,
    bad: ['process.env.HOME', 'process?.env', `process['env']`, `import { env } from 'node:process'`],
    good: ['process.pid', 'settings.env', '// process.env', `import { pid } from 'node:process'`],
    free: ['packages/base/src/environment.ts', test],
  },
  'one-backoff': {
    path: kernel,
    bad: [
      'await clock.sleep(Math.min(5_000, pauseMs * 2 ** Math.min(attempt, 5)), signal)',
      'const backoffMs = Math.min(restartMaxMs, restartMinMs * 2 ** (failures - 1))',
      'pauseMs = Math.min(pauseMaxMs, pauseMs * 2)',
      'pauseMs *= 1.5',
      'delayMs = delayMs << 1',
      'await clock.sleep(100 * attempt)',
      'await wake.wait(intervalMs * (failures + 1), signal)',
    ],
    good: [
      'await clock.sleep(pauseMs({ backoff }, attempt, random.next()), signal)',
      'const chunkBytes = 2 ** 20',
      'const parseMaxBytes = 48 * 2 ** 20',
      'new Int32Array(2 ** Math.ceil(Math.log2(count)))',
      'this.#slots.length * 2',
      'clock.sleep(settings.intervalMs)',
      '// pauseMs * 2 ** attempt',
      `'pauseMs * 2'`,
    ],
    free: ['packages/bellwether/src/ports/retry.ts', 'packages/sensor/src/session/x.ts', test],
  },
  'sql-clock': {
    path: kernelSql,
    bad: [
      'select now()',
      'select NOW( )',
      'select pg_catalog.now()',
      'default current_timestamp',
      'select clock_timestamp();',
      'select transaction_timestamp()',
      `select 'now'::timestamptz`,
      `${clock}\nselect clock_timestamp();`,
      `${quotedClock}\ncreate function f() as $$ select now() $$;`,
    ],
    good: ['select state.now()', '-- now()', '/* current_timestamp */', clock, quotedClock, 'select a.now_at'],
    free: ['packages/bellwether/src/ports/x.sql'],
  },
  'sql-chance': {
    path: kernelSql,
    bad: ['select random()', 'default gen_random_uuid()'],
    good: ['select $1::uuid', '-- random()'],
    free: ['packages/bellwether/src/ports/x.sql'],
  },
  'sql-in-the-kernel': {
    path: 'packages/bellwether/src/worker/x.ts',
    bad: [
      "db.query({ text: 'select name from state.turns' })",
      '`\n  insert into state.events (kind) values ($1)`',
      "'update state.limits set a = 1'",
      "'delete from cards.cards'",
      "'select state.sign_in($1)'",
      "'with recent as (select 1) select 2'",
    ],
    good: ["'select a task'", "'update the value'", "'with care'", "// 'delete from cards.cards'"],
    free: [kernel, kernelSql, port, test, 'packages/demo/src/x.ts'],
  },
  'sql-columns': {
    path: kernelSql,
    bad: [`select ${'a'.repeat(120)}`, `-- ${'a'.repeat(120)}`],
    good: [`select\n  ${'a'.repeat(118)}`, 'select 1'],
    free: ['packages/bellwether/sim/x.sql'],
  },
  'head-status': {
    path: 'packages/bellwether/src/pmo/x.ts',
    bad: [`'idle'`, `"dispatched"`, `type S = 'running' | 'x'`, '`suspended`', '`${a ? "idle" : ""}`'],
    good: [`'idle agents'`, '// idle', `import { idle } from './turn.js'`, 'const running = 1'],
    free: ['packages/bellwether/src/kernel/turn.ts', test],
  },
  'no-swallowed-error': {
    path: kernel,
    bad: [
      'try { f() } catch {}',
      'try { f() } catch (e) { }',
      'try { f() } catch { /* it is fine */ }',
      'p.catch(() => {})',
      'p.catch((e) => {})',
    ],
    good: ['try { f() } catch (e) { log(e) }', 'p.catch((e) => log(e))', '// catch {}'],
  },
  'no-any': {
    path: test,
    bad: ['x as any', 'let x: any', 'f(x?: any)', 'Array<any>', 'Record<string, any>', 'let x: any[]'],
    good: ['x as unknown', 'z.any()', 'Promise.any(p)', '// as any', 'expect.any(String)', '{ a: expect.any(Date) }'],
  },
  'no-ts-ignore': {
    path: kernel,
    bad: ['// @ts-ignore\nf()', '/* @ts-ignore */', '// @ts-nocheck'],
    good: ['// @ts-expect-error wrong on purpose', `'@ts-ignore'`],
  },
  'no-silenced-test': {
    path: test,
    bad: ['it.skip(a)', 'describe.only(a)', 'test.todo(a)', 'it.concurrent.skip(a)', 'xit(a)'],
    good: ['it(a)', 'it.each(a)', '// it.skip', `'it.only'`, 'result.skip'],
  },
  'no-sleeping-test': {
    path: test,
    bad: ['await sleep(100)', 'clock.sleep(1_000)', 'sleep(2e3)', 'sleep(10 * 10)', 'setTimeout(f, 5)'],
    good: ['sleep(99)', 'sleep(waitMs)', `await seen('turn.done')`, '// sleep(500)'],
    free: [support],
  },
  'one-way-to-drop-undefined': {
    path: kernel,
    bad: ['({ ...(a === undefined ? {} : { a }) })', 'f(x.a === undefined ? {} : { a: x.a })'],
    good: [
      '({ ...defined({ a }) })',
      '({ ...(a === undefined ? {} : { a: a.b }) })',
      '// a === undefined ? {} : { a }',
    ],
    free: ['x.md'],
  },
  'small-files': { path: kernel, bad: ['x\n'.repeat(401)], good: ['x\n'.repeat(400)], free: ['docs/x.md'] },
  'opening-comment': {
    path: kernel,
    bad: ['const a = 1', '// for what', '/* for what */', '#!/usr/bin/env node\nf()'],
    good: ['/** For what. */\nf()', '#!/usr/bin/env node\n/** For what. */'],
    free: [test, 'packages/bellwether/src/kernel/x.test.ts'],
  },
  'prose-columns': {
    path: 'docs/x.md',
    bad: ['word '.repeat(33), `\`\`\`\n\`\`\`\n${'word '.repeat(33)}`, `- ${'word '.repeat(32)}`],
    good: ['word '.repeat(32), `| ${'word '.repeat(40)} |`, `\`\`\`sh\n${'word '.repeat(40)}\n\`\`\``, 'x'.repeat(200)],
    free: ['docs/reference/x.md', 'x.css'],
  },
  'plain-prose': {
    path: 'docs/x.md',
    bad: [
      'the house starts',
      'openHouse()',
      '// the caller is told',
      'const said = payload',
      `'the value is no number'`,
      'it mends the row',
      'Meanwhile, the worker beats',
      'the turn waits for ever',
      'whoever asks',
      'a turn nobody ended',
      'somebody else holds the lock',
      'everybody looks again',
      'the deed is recorded',
      'the task is not as it must be',
      'the login of the coding CLI',
      'ends when it is called off',
    ],
    good: [
      'the warehouse',
      'there is no database',
      'the lease is no longer valid',
      'tell the worker',
      'recommended, mendacious',
      'forever',
      `the account 'nobody'`,
      'in the meantime',
      'a coding agent on the CLI',
      'called offline',
    ],
    free: ['packages/bellwether/test/tidy.test.ts'],
  },
}

const root = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))))

const packages = ['base', 'protocol', 'bellwether', 'sensor', 'dashboard']

function* sources(folder: string): Iterable<SourceFile> {
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = folder === '.' ? entry.name : `${folder}/${entry.name}`
    // Installed, built, generated, or the working folders of other programs.
    const foreign = /(?:^|\/)(?:node_modules|dist|coverage|test-results|\.[^/]*)$/.test(path)
    if (entry.isDirectory() && !foreign) yield* sources(path)
    else if (entry.isFile() && /\.(?:tsx?|mjs|sql|md|sh|py)$/.test(path))
      yield { path, text: readFileSync(join(root, path), 'utf8') }
  }
}

const tree = [...sources('.')]
const offences = tree.flatMap((file) => scan(file, rules))

describe('the scanner', () => {
  it('separates code from comments, strings, templates and regular expressions, and keeps line numbers', () => {
    const source = [
      `const a = 'it''s // no comment' // a comment`,
      'const b = `one ${two({ three: `four ${five}` })} // six`',
      'const c = /[/"]\\/*/.test(d) // seven',
      'const e = f / g / h',
      '/* eight',
      '   nine */ const i = 10',
    ].join('\n')
    const { text, code, comments, strings } = viewTypeScript(source)
    for (const view of [text, code, comments])
      expect(view.split('\n').map((line) => line.length)).toEqual(source.split('\n').map((line) => line.length))
    expect(code).not.toMatch(/comment|one|four|six|seven|eight|nine/)
    expect(code).toMatch(/two\(\{ three: .*five.*\}\)[^]*\.test\(d\)[^]*f \/ g \/ h[^]*const i = 10/)
    expect(text).toContain('no comment')
    expect(text).not.toMatch(/a comment|seven|eight|nine/)
    expect(comments).toMatch(/a comment[^]*seven[^]*eight[^]*nine/)
    expect(strings.map((string) => string.value)).toEqual(['it', 's // no comment', 'one ', 'four ', '', ' // six'])
  })

  it('blanks the comments of SQL only', () => {
    const { text, comments } = viewSql(`select 1 -- now()\n/* two\n*/ select '3'`)
    expect(text.split('\n').map((line) => line.trim())).toEqual(['select 1', '', `select '3'`])
    expect(comments).toContain('now()')
  })

  it('names the line of an offence', () => {
    const file = { path: kernel, text: '/** x */\n// Date.now()\nconst t = Date.now()\n' }
    expect(scan(file, rules)).toEqual([{ path: kernel, line: 3, rule: 'one-clock', found: 'Date.now' }])
  })

  it('finds SQL inside the strings of TypeScript', () => {
    const found = scan({ path: kernel, text: '/** x */\nq(`select 1 where at < now()`, "call now()")' }, rules)
    expect(found).toMatchObject([{ rule: 'sql-clock', line: 2 }])
  })
})

describe('each rule', () => {
  it('every rule has examples', () => {
    expect(Object.keys(examples)).toEqual(rules.map((rule) => rule.name))
  })

  describe.each(rules)('$name', (rule) => {
    const { path, bad, good, free = [] } = examples[rule.name]!
    it.each(bad)('refuses %j', (text) => {
      expect(scan({ path, text }, [rule])).not.toEqual([])
    })
    it.each(good)('accepts %j', (text) => {
      expect(scan({ path, text }, [rule])).toEqual([])
    })
    it('applies only where it should', () => {
      for (const elsewhere of free) for (const text of bad) expect(scan({ path: elsewhere, text }, [rule])).toEqual([])
    })
  })
})

describe('the whole tree', () => {
  it('contains every package, SQL, docs and scripts', () => {
    for (const name of packages) expect(tree.some((file) => file.path.startsWith(`packages/${name}/src/`))).toBe(true)
    expect(tree.some((file) => file.path.endsWith('.sql'))).toBe(true)
    for (const path of ['packages/bellwether/test/tidy.test.ts', 'README.md', 'docs/cli.md', 'scripts/test.sh'])
      expect(tree.map((file) => file.path)).toContain(path)
  })

  for (const rule of rules) {
    it(`keeps ${rule.protects} (${rule.name})`, () => {
      const own = offences.filter((offence) => offence.rule === rule.name)
      expect(own.map(({ path, line, found }) => `${path}:${line}: ${found}`)).toEqual([])
    })
  }

  it(`keeps folders small: at most ${folderMax} files, or subfolders with a subject`, () => {
    const files = new Map<string, number>()
    for (const { path } of tree) files.set(dirname(path), (files.get(dirname(path)) ?? 0) + 1)
    const large = [...files].filter(([folder, count]) => count > folderMax && !largeFolders.includes(folder))
    expect(large).toEqual([])
  })

  it('keeps one definition of the database clock, state.now()', () => {
    const definitions = tree.filter(
      (file) => file.path.endsWith('.sql') && clockDefinition.test(viewSql(file.text).text),
    )
    expect(definitions.map((file) => file.path)).toHaveLength(1)
  })
})
