/** The style rules. test/tidy.test.ts proves that each rule can fail and checks the whole tree against all of them. */
import { blank, matches, type Rule } from './tidy.js'

const isSql = (path: string) => path.endsWith('.sql')
const isTypeScript = (path: string) => /\.tsx?$/.test(path)
const isTest = (path: string) => /\.test\.tsx?$/.test(path)
const isSource = (path: string) => /^packages\/[^/]+\/src\//.test(path)
const isProduct = (path: string) => isSource(path) && isTypeScript(path) && !isTest(path)
const isPort = (path: string) => /^packages\/(?:base\/src|[^/]+\/src\/ports)\//.test(path)
const isSimulation = (path: string) => path.startsWith('packages/bellwether/sim/')
const isSupport = (path: string) => path.startsWith('packages/bellwether/test/support/')
const isTestCode = (path: string) =>
  isTypeScript(path) && (isTest(path) || path.startsWith('packages/bellwether/test/')) && !isSupport(path)
/** Where the same seed must give the same trace. */
const isDeterministic = (path: string) => isTypeScript(path) && (isSource(path) || isSimulation(path)) && !isPort(path)

const lineMax = 400
const proseColumnsMax = 160
export const folderMax = 25
/** Folders that may be larger. Migrations are a numbered list that only grows: a subfolder would hide their order. */
export const largeFolders: readonly string[] = ['packages/bellwether/src/kernel/schema/migrations']
const sqlColumnsMax = 120
/** A statement, not the word in a sentence. */
const sqlStatement =
  /^\s*(?:select\s[^]*\sfrom\s|select\s+(?:[a-z_]+\.)?[a-z_]+\(|with\s(?:recursive\s)?[a-z_]+\s(?:\([^)]*\)\s)?as\s|insert\s+into\s|update\s+[a-z_.]+\s[^]*\bset\s|delete\s+from\s)/i
/** A test that sleeps this long guesses how long something takes. */
const sleepMaxMs = 100
const sqlClock =
  /(?<![.\w])(?:pg_catalog\s*\.\s*)?(?:now|clock_timestamp|transaction_timestamp|statement_timestamp)\s*\(\s*\)|(?<![.\w])(?:current_timestamp|current_time|current_date|localtimestamp|localtime)\b(?!\s*=)|'now'\s*::/gi
export const clockDefinition =
  /create\s+(?:or\s+replace\s+)?function\s+state\s*\.\s*now\s*\(\s*\)[^;$']*(?:(\$\w*\$)[^]*?\1|'(?:[^']|'')*')/i

/** Words and phrases that STYLE.md bans from comments, texts, docs, test titles and names. Keep the list short. */
const bannedProse: readonly RegExp[] = [
  /(?<![A-Za-z])[Hh]ouses?(?![a-z])|(?<=[a-z])Houses?(?![a-z])/g, // the runtime, the server, the product
  /\btold\b/gi, // name who reports what to whom
  /\bsaid\b/gi, // reported, requested, the payload
  /\bmend(?:s|ed|ing)?\b/gi, // fix, repair
  /\bmeanwhile\b/gi, // while …, in the meantime
  /\bfor ever\b/gi, // forever, without a limit
  /\bwhoever\b/gi, // the caller, the reader, the process that …
  /(?<!['`])\b(?:no|some|any|every)body\b(?!['`])/gi, // name the actor; `nobody` in quotes is the Unix account
  /\b(?:deeds?|lifelines?)\b/gi, // changes, calls; the shutdown signal
  /\bas it must be\b/gi, // state what is invalid
  /\bcoding CLIs?\b/gi, // coding agent: the glossary's word
  /\bcall(?:s|ed|ing)? off\b/gi, // abort, cancel
  /(?<!\bthere )\b(?:is|are) no (?!longer\b|more\b)/gi, // "must be …", "is not a …"
]

const isProse = (path: string) =>
  /\.(?:tsx?|mjs|sql|md|sh|py)$/.test(path) && !/\/test\/tidy(?:-rules|\.test)\.ts$/.test(path)

export const rules: readonly Rule[] = [
  {
    name: 'one-clock',
    protects: 'time replaceable by the simulation: only ports/ may ask the machine what time it is',
    applies: isDeterministic,
    find: ({ code }) =>
      matches(
        code,
        /\bDate\s*\.\s*now\b|\bnew\s+Date\b(?!\s*\(\s*[^\s)])|(?<!new\s+)\bDate\s*\(|\bperformance\s*\.\s*now\b|\bhrtime\b/g,
      ),
  },
  {
    name: 'one-timer',
    protects: 'timers in the clock port: nothing else may set one',
    applies: isDeterministic,
    find: ({ code }) => matches(code, /\bset(?:Timeout|Interval)\b|\bAbortSignal\s*\.\s*timeout\b/g),
  },
  {
    name: 'one-chance',
    protects: 'runs repeatable from a seed: ids and randomness come from their ports',
    applies: isDeterministic,
    find: ({ code }) => matches(code, /\bMath\s*\.\s*random\b|\brandom(?:UUID|Bytes|Int)\b|\bgetRandomValues\b/g),
  },
  {
    name: 'one-reader-of-the-environment',
    protects: 'one reader of the environment: only packages/base/src/environment.ts may read it',
    applies: (path) => isProduct(path) && path !== 'packages/base/src/environment.ts',
    find: ({ text, code }) => [
      ...matches(code, /\bprocess\s*(?:\?\.|\.)\s*env\b|\bprocess\s*\[/g),
      ...matches(text, /\bimport\s*\{[^}]*\benv\b[^}]*\}\s*from\s*['"](?:node:)?process['"]/g),
    ],
  },
  {
    name: 'one-backoff',
    protects: 'retries in one place: every growing pause comes from backoffMs in ports/retry.ts (H1)',
    applies: (path) =>
      isProduct(path) &&
      path.startsWith('packages/bellwether/src/') &&
      path !== 'packages/bellwether/src/ports/retry.ts',
    find: ({ code }) => [
      // 200 * 2 ** attempt, pauseMs * 1.5 ** n: a power whose exponent is counted
      ...matches(code, /[\w)]\s*\*\s*[\d._]+\s*\*\*\s*(?!\d)[\w(]/g),
      // pauseMs * 2, waitMs *= 2, delay << 1, Math.min(most, pauseMs * 2)
      ...matches(code, /\b\w*(?:pause|backoff|delay|retryIn)\w*\s*(?:\*=?|<<=?)\s*[\d.]+/gi),
      // sleep(100 * attempt), sleep(pause * tries)
      ...matches(code, /\b(?:sleep|wait)\s*\([^;\n]*\*\s*\(?\s*\w*(?:attempt|failures|tries|tried|retries)\b/gi),
    ],
  },
  {
    name: 'sql-clock',
    protects: 'one clock for all rows: SQL calls state.now(), which the simulation replaces',
    applies: (path) => (isSql(path) || isProduct(path)) && !isPort(path),
    *find({ text, strings }, { path }) {
      if (!isSql(path)) {
        for (const { at, value } of strings)
          if (/\b(?:select|insert|update|delete|where|values|set)\b/i.test(value))
            for (const hit of matches(value, sqlClock)) yield { at: at + hit.at, found: hit.found }
        return
      }
      const definition = clockDefinition.exec(text)
      const from = definition?.index ?? -1
      const to = from + (definition?.[0].length ?? 0)
      for (const hit of matches(text, sqlClock)) if (hit.at < from || hit.at >= to) yield hit
    },
  },
  {
    name: 'sql-chance',
    protects: 'runs repeatable from a seed: the ids port mints ids and SQL receives them',
    applies: (path) => isSql(path) && !isPort(path),
    find: ({ text }) => matches(text, /(?<![.\w])(?:random|gen_random_uuid|uuidv7|uuid_generate_v4)\s*\(\s*\)/gi),
  },
  {
    name: 'sql-in-the-kernel',
    protects: 'all SQL in one room: kernel/ holds the queries, ports/ the statements of a connection',
    applies: (path) => isProduct(path) && /^packages\/bellwether\/src\/(?!kernel\/|ports\/)/.test(path),
    *find({ strings }) {
      for (const { at, value } of strings)
        if (sqlStatement.test(value)) yield { at, found: value.trim().split('\n')[0] ?? '' }
    },
  },
  {
    name: 'sql-columns',
    protects: `SQL readable side by side: its lines have at most ${sqlColumnsMax} columns`,
    applies: (path) => path.startsWith('packages/bellwether/src/kernel/') && (isSql(path) || isProduct(path)),
    *find({ strings }, { path, text }) {
      const lines = isSql(path)
        ? [{ at: 0, value: text }]
        : strings.filter(({ value }) => sqlStatement.test(value) && value.includes('\n'))
      for (const { at, value } of lines)
        for (const hit of matches(value, new RegExp(`[^\\n]{${sqlColumnsMax + 1},}`, 'g')))
          yield { at: at + hit.at, found: hit.found }
    },
  },
  {
    name: 'head-status',
    protects:
      'one definition of a head status: the vocabulary of the protocol has the words, the table of moves uses them, other files import them',
    applies: (path) =>
      isProduct(path) &&
      !['packages/bellwether/src/kernel/turn.ts', 'packages/protocol/src/vocabulary.ts'].includes(path),
    *find({ strings }) {
      for (const { at, value } of strings)
        if (/^(?:idle|dispatched|running|suspended)$/.test(value)) yield { at, found: `'${value}'` }
    },
  },
  {
    name: 'no-swallowed-error',
    protects: 'failures visible: an expected loss is a value, any other error is handled or rethrown',
    applies: isTypeScript,
    find: ({ code }) =>
      matches(
        code,
        /\bcatch\s*(?:\([^)]*\)\s*)?\{\s*\}|\.\s*catch\s*\(\s*(?:async\s*)?(?:\([^)]*\)|\w+)\s*=>\s*\{\s*\}\s*\)|\.\s*catch\s*\(\s*\)/g,
      ),
  },
  {
    name: 'no-any',
    protects: 'the compiler able to help: unknown data is unknown until it is checked',
    applies: isTypeScript,
    find: ({ code }) => matches(code, /\bas\s+any\b|:\s*any\b(?!\s*[.(])|<\s*any\b|,\s*any\s*>/g),
  },
  {
    name: 'no-ts-ignore',
    protects: 'type errors fixed: @ts-expect-error at least reports when it is no longer needed',
    applies: isTypeScript,
    find: ({ comments }) => matches(comments, /@ts-(?:ignore|nocheck)\b/g),
  },
  {
    name: 'no-silenced-test',
    protects: 'every test running in every run: none is skipped, postponed or run alone',
    applies: (path) => isTypeScript(path) && !isProduct(path),
    find: ({ code }) =>
      matches(
        code,
        /\b(?:it|test|describe|suite|bench)\s*(?:\.\s*\w+\s*)*\.\s*(?:skip|only|todo)\b|\b(?:xit|xtest|xdescribe|fit|fdescribe)\s*\(/g,
      ),
  },
  {
    name: 'no-sleeping-test',
    protects: 'tests fast and deterministic: they await an event, never a guessed number of milliseconds',
    applies: isTestCode,
    *find({ code }) {
      yield* matches(code, /\bsetTimeout\b|\bsetInterval\b/g)
      for (const hit of matches(code, /\bsleep\s*\(\s*(\d[\d_.]*(?:e\d+)?(?:\s*\*\s*\d[\d_.]*)*)/g)) {
        const factors = hit.found
          .replace(/^[^(]*\(/, '')
          .replaceAll('_', '')
          .split('*')
          .map(Number)
        if (factors.reduce((product, factor) => product * factor, 1) >= sleepMaxMs) yield hit
      }
    },
  },
  {
    name: 'one-way-to-drop-undefined',
    protects: 'optional keys in one place: `defined` of packages/base drops the undefined ones',
    applies: isTypeScript,
    find: ({ code }) => matches(code, /([\w.]+)\s*===\s*undefined\s*\?\s*\{\s*\}\s*:\s*\{\s*(?:\w+:\s*)?\1\s*\}/g),
  },
  {
    name: 'small-files',
    protects: `files small: at most ${lineMax} lines`,
    applies: (path) => isTypeScript(path) || path.endsWith('.mjs'),
    *find(_views, { text }) {
      const lines = text.replace(/\n$/, '').split('\n').length
      if (lines > lineMax) yield { at: text.length, found: `${lines} lines: split the file` }
    },
  },
  {
    name: 'opening-comment',
    protects: 'files self-explaining: each starts with a /** comment that says what it does',
    applies: isProduct,
    *find(_views, { text }) {
      const opening = text.replace(/^#![^\n]*\n/, '').trimStart()
      if (!opening.startsWith('/**')) yield { at: 0, found: opening.split('\n')[0] ?? '' }
    },
  },
  {
    name: 'prose-columns',
    protects: `prose readable: its lines have at most ${proseColumnsMax} columns, except tables, code and generated pages`,
    applies: (path) => isProse(path) && !/\.(?:sh|py)$|^docs\/reference\//.test(path),
    *find({ comments }, { path }) {
      const lines = path.endsWith('.md') ? comments.replace(/^ *```[^]*?^ *```/gm, blank) : comments
      for (const hit of matches(lines, new RegExp(`^[^\\n]{${proseColumnsMax + 1},}`, 'gm')))
        if (!/^(?:\||\s*$)/.test(hit.found) && hit.found.trimStart().includes(' ')) yield hit
    },
  },
  {
    name: 'plain-prose',
    protects: 'every text in plain technical English: no banned word or phrase (STYLE.md)',
    applies: isProse,
    find: (_views, { text }) => bannedProse.flatMap((pattern) => [...matches(text, pattern)]),
  },
]
