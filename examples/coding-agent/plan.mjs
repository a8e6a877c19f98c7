/** What a stand-in does with a prompt: a merge conflict, the orders in it, the tutorial's bug and changelog, or nothing. */
import { spawnSync } from 'node:child_process'
import { appendFileSync, existsSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * What to do. `stand-in: write FILE` writes a file, `stand-in: run COMMAND` runs a command (claude), `stand-in: report JSON` adds fields to the
 * object at the end of the answer, `stand-in: fail TEXT` ends as with an API that does not respond, with this text if it is given, `stand-in:
 * max-turns` at the limit of turns, `stand-in: exit N` with an exit code and no result. `stand-in: pause POINT FILE` writes FILE.reached at a
 * point (`start`, `session`, or the number of a call) and waits until FILE exists. `stand-in: limit FILE` ends at the limit of its account as
 * long as the file exists: it contains the reset, in seconds since 1970. Each run adds a line to FILE.runs. `stand-in: kill N FILE` kills the
 * process whose id FILE contains after the Nth print of the run (0: before the first), once, and waits for its own end. An order that begins
 * with `later` applies to the next prompt of the same session.
 */
export function ordersIn(text) {
  return [...text.matchAll(/^stand-in: ([\w-]+) ?(.*)$/gm)].map(([, order, what]) => [order, what.trim()])
}

export function plan(name, prompt, session, model = 'itself') {
  const [, base] = /Run git merge (\S+) in the worktree/.exec(prompt) ?? []
  if (base !== undefined) {
    const writes = keepBothSides(base)
    return {
      think: 'Both sides changed the same lines.',
      writes,
      answer: 'I merged the branch and kept both sides.',
      report: { summary: 'Kept both sides.', files: writes.map(([path]) => path) },
    }
  }
  const own = ordersIn(prompt)
  const later = session.earlier.flatMap(ordersIn).filter(([order]) => order === 'later')
  const orders = own.length > 0 ? own : later.flatMap(([, what]) => ordersIn(`stand-in: ${what}`))
  const last = session.earlier.at(-1)
  // The work of the session had ended: only the answer is given again.
  const isDone =
    orders.length === 0
      ? /^# Interrupted work/m.test(prompt)
      : /may contain the same request already/.test(prompt) && String(own) === String(ordersIn(last ?? ''))
  if (last !== undefined && isDone) {
    return { ...plan(name, last, { earlier: [] }, model), writes: [], calls: [5] }
  }
  const [, word] = /the word (\w+)/.exec(session.earlier.join('\n')) ?? []
  if (/which word/i.test(prompt))
    return { think: 'I remember.', writes: [], answer: `The word is ${word ?? 'unknown to me'}.`, calls: [0, 5] }
  if (orders.length > 0) {
    const order = (wanted) => orders.filter(([one]) => one === wanted).map(([, what]) => what)
    const writes = order('write').map((path) => [path, `${path}, by ${name}\n`])
    const report = Object.assign({}, ...order('report').map((text) => JSON.parse(text)))
    const [exit] = order('exit')
    const [limitFile] = order('limit')
    if (limitFile !== undefined) appendFileSync(`${limitFile}.runs`, 'run\n')
    const limited = limitFile !== undefined &&
      existsSync(limitFile) && { resetsAt: Number(readFileSync(limitFile, 'utf8')), rateLimitType: 'five_hour' }
    return {
      think: 'I read the task and the files that it names.',
      writes,
      runs: order('run'),
      answer: 'The work has ended.',
      report: { summary: 'Did what the task says.', files: writes.map(([path]) => path), ...report },
      fails: Boolean(limited) || orders.some(([one]) => one === 'fail'),
      limited,
      failure: limited ? limitOf(name, limited.resetsAt) : order('fail')[0] || away,
      turnsUp: orders.some(([one]) => one === 'max-turns'),
      exit: exit === undefined ? undefined : Number(exit),
    }
  }
  if (/Write CHANGELOG\.md/.test(prompt))
    return {
      think: 'The changelog needs one line.',
      writes: [],
      answer: 'I wrote the changelog.',
      report: { summary: 'Wrote the changelog.', files: ['CHANGELOG.md'] },
    }
  if (/node --test fails/.test(prompt)) {
    const fixed = readFileSync('total.mjs', 'utf8').replace('cents = price', 'cents += price')
    return {
      think: 'The loop overwrites the sum.',
      writes: [['total.mjs', fixed]],
      answer: 'The loop kept only the last line; it adds now.',
      report: { summary: 'Add every line.', files: ['total.mjs'] },
    }
  }
  const before = session.earlier.length === 0 ? '' : `, after ${session.earlier.length} earlier prompts`
  return {
    think: 'Nothing to change.',
    writes: [],
    answer: `${name} read ${prompt.length} characters as ${model}${before}`,
  }
}

/** Merges the branch and returns the files with conflicts, without the marks. */
function keepBothSides(branch) {
  const git = (...args) =>
    spawnSync('git', ['-c', 'user.name=stand-in', '-c', 'user.email=stand-in@localhost', ...args])
  git('merge', '-q', branch)
  const files = git('diff', '--name-only', '-z', '--diff-filter=U').stdout.toString().split('\0').filter(Boolean)
  return files.map((path) => [path, readFileSync(path, 'utf8').replaceAll(/^(<{7} .*|={7}|>{7} .*)\n/gm, '')])
}

const away = 'API Error: 529 the model is overloaded'

/** What the programs print at the limit of their account. */
function limitOf(name, reset) {
  const seconds = Math.max(1, Math.round(reset - Date.now() / 1_000))
  const duration = `${Math.floor(seconds / 3_600)}h${Math.floor((seconds % 3_600) / 60)}m${seconds % 60}s`
  const clock = new Date(reset * 1_000).toLocaleTimeString('en-US', { timeZone: 'UTC', timeStyle: 'short' })
  return {
    claude: `You've hit your session limit · resets ${clock} (UTC)`,
    codex: `You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in ${Math.ceil(seconds / 60)} minutes.`,
    gemini: `You have exhausted your capacity on this model. Your quota will reset after ${duration}.`,
    opencode: `{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_at":${reset}}`,
    aider: `litellm.RateLimitError: RESOURCE_EXHAUSTED: Please retry in ${seconds}s.`,
  }[name]
}

/** Kills a process with SIGKILL at a print that an order of the prompt names. */
export function killAt(print, text) {
  for (const [order, what] of ordersIn(text)) {
    const [at, file] = what.split(' ')
    if (order !== 'kill' || at !== String(print) || !existsSync(file)) continue
    const pid = Number(readFileSync(file, 'utf8'))
    rmSync(file)
    process.kill(pid, 'SIGKILL')
    // Nothing more happens until the guardian of the dead worker kills this process, too.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000)
  }
}

/** Waits at a point that an order of the prompt names. */
export async function pauseAt(point, text) {
  for (const [order, what] of ordersIn(text)) {
    const [at, file] = what.split(' ')
    if (order !== 'pause' || at !== String(point) || existsSync(file)) continue
    writeFileSync(`${file}.reached`, '')
    await new Promise((resolve) => {
      const watcher = watch(dirname(file), () => existsSync(file) && (watcher.close(), resolve()))
      if (existsSync(file)) (watcher.close(), resolve())
    })
  }
}
