/** `bellwether up` on a real terminal (a pty of script(1)): what it prints, where its log goes, and how it stops. */
import { existsSync, readFileSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { ask, testProject } from '../support/folder.js'
import { repository } from '../docs/pages.js'
import { programFor, runCli } from '../support/process.js'
import { until } from '../support/until.js'

// eslint-disable-next-line no-control-regex -- the escape sequences of colours and of the progress line
const sequences = /\u001b\[[\d;?]*[A-Za-z]|\r/g

/** Runs a command on a terminal of 100 columns. */
function onTerminal(folder: string, words: readonly string[]) {
  const quoted = [process.execPath, ...programFor(words), ...words].map((word) => `'${word}'`).join(' ')
  // script gives its own terminal the size of its stdin's, and there is none here. Ctrl-C reaches every process of the terminal:
  // exec leaves no shell that could end of it.
  const child = spawn('/usr/bin/script', ['-qefc', `stty cols 100 rows 40; exec ${quoted}`, '/dev/null'], {
    cwd: folder,
    // The stand-in of claude, and what npx sets.
    env: {
      ...process.env,
      PATH: `${join(repository, 'examples/coding-agent')}:${process.env['PATH']}`,
      npm_command: 'exec',
      TERM: 'xterm',
      NO_COLOR: '',
    },
    stdio: 'pipe',
  })
  let raw = ''
  child.stdout.on('data', (data: Buffer) => (raw += data.toString()))
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  onTestFinished(async () => {
    child.kill('SIGTERM')
    await ended
  })
  const screen = () => raw.replaceAll(sequences, '')
  return {
    raw: () => raw,
    screen,
    ended,
    shows: (pattern: RegExp) =>
      until(pattern.source, async () => pattern.exec(screen()) ?? undefined).catch((error: unknown) => {
        throw new Error(`The terminal shows: ${screen()}`, { cause: error })
      }),
    press: (key: string) => child.stdin.write(key),
  }
}

it('up on a terminal prints five lines, the link and one line per turn and task, logs to a file, and says what its stop waits for and what a second Ctrl-C does', async () => {
  const { folder, data } = await testProject()
  const waits = 'until test -e go; do sleep 0.05; done'
  await writeFile(join(folder, 'agents', 'waits.md'), `---\ncommand: [sh, -c, ${JSON.stringify(waits)}]\n---\n`)
  await writeFile(join(folder, 'agents', 'boss.md'), '---\nexecutor: person\npeople: [ann]\n---\n')
  await writeFile(join(folder, 'agents', 'runs.md'), '---\npreset: claude\napprove: ask\n---\n')
  const up = onTerminal(folder, ['up', '--port', '0', '--trust'])
  const [, url] = await up.shows(/(http:\S+)\/login#token=\S+\n/)
  const start = up.screen().slice(up.screen().indexOf('Bellwether 0'))
  expect(start.trimEnd().split('\n')).toEqual([
    expect.stringMatching(/^Bellwether \S+ runs on http:\S+ \(Ctrl-C stops it\) in \//),
    '  Agents   boss, coder, greeter, runs, waits',
    '  Try      in another terminal: npx bellwether turn run greeter "Good morning"',
    expect.stringMatching(/^ {2}Logs {5}npx bellwether logs --follow \(\//),
    '  Browser  the link works once; npx bellwether open makes another',
    expect.stringMatching(/^http:\S+\/login#token=\S+$/),
  ])
  expect(up.raw()).toContain('\u001b[1mBellwether')

  const facts = { url, adminKeyFile: join(data, 'admin-key') }
  const turn = async (agent: string, at = facts, instruction = 'hello') =>
    ask(at, `/api/v1/projects/default/agents/${agent}/turns`, { method: 'POST', body: { instruction } })
  await turn('greeter')
  await up.shows(/▶ greeter +turn started {2}\S+\n(?:.*\n)*.*✓ greeter +turn ended: success in [\d.]+ m?s {2}\S+\n/)
  await turn('boss')
  await up.shows(/● boss +needs you: a question\. See: npx bellwether questions\n/)
  await turn('runs', facts, 'stand-in: run echo 1')
  await up.shows(/● runs +needs you to allow Bash: echo 1\. See: npx bellwether approvals\n/)
  const approvals = '/api/v1/projects/default/approvals'
  const [waiting] = (await ask(facts, approvals)).body['approvals'] as { approval_id: string }[]
  const decision = `${approvals}/${waiting!.approval_id}/decision`
  await ask(facts, decision, { method: 'POST', body: { decision: 'deny' } })
  await up.shows(/✓ runs +turn ended: success/)
  expect(up.screen().match(/needs you to allow/g)).toHaveLength(1)

  const task = { title: 'no\u001b[2Jthing', taskId: 'N-1', agent: 'greeter' }
  await ask(facts, '/api/v1/board/tasks', { method: 'POST', body: task })
  // Of a run before the last one, only the kind of problem is known.
  const rejected =
    /✗ N-1 +task (?:blocked|not accepted): no\?\[2Jthing: (?:done without evidence|incomplete).*\n(?:.*\n)*/
  const needsYou = /.*● N-1 +task needs you: no\?\[2Jthing: done without e.*[.…] See: npx bellwether task show N-1\n/
  const started = /▶ N-1 +task started by greeter: no\?\[2Jthing\n(?:.*\n)*.*/
  await up.shows(new RegExp(started.source + rejected.source + needsYou.source))
  // The alert about the same task is only in the log.
  expect(up.screen()).not.toMatch(/! N-1/)

  await turn('waits')
  await up.shows(/▶ waits +turn started/)
  up.press('\u0003')
  await up.shows(
    /Stopping: waits up to 20 s for 1 turn: waits \(running for [\d.]+ m?s\)\.\n.* Ctrl-C again exits at once\./,
  )
  await writeFile(join(folder, 'go'), '')
  expect([await up.ended, up.screen()]).toEqual([0, expect.stringContaining('Stopping')])
  expect(up.screen()).toMatch(/✓ waits +turn ended: success in [\d.]+ m?s .*\n(?:.*\n)*Stopped\. Everything is stored/)

  // The log is in the file, and a clean stop has no lost connection in it.
  const log = readFileSync(join(data, 'logs', 'up.log'), 'utf8')
  expect(log).toMatch(/"role":"up".*server is ready/)
  expect(log).toMatch(/"role":"worker default".*worker is ready/)
  expect(log).not.toContain('database connection lost')
  const logs = runCli(['logs', '--lines', '3', '--level', 'warn'], { cwd: folder })
  expect([await logs.ended, logs.stderr()]).toEqual([0, ''])
  expect(logs.stdout()).not.toContain('server is ready')

  // A second Ctrl-C does not wait for the turn.
  await rm(join(folder, 'go'))
  const again = onTerminal(folder, ['up', '--port', '0'])
  const [, secondUrl] = await again.shows(/(http:\S+)\/login#token=\S+\n/)
  await turn('waits', { ...facts, url: secondUrl })
  await again.shows(/▶ waits +turn started/)
  again.press('\u0003')
  await again.shows(/Ctrl-C again exits at once\./)
  again.press('\u0003')
  const exits =
    /Exiting now\. Turns that ran continue at the next start, after about a minute; their programs are being killed\.\n/
  expect([await again.ended, again.screen()]).toEqual([130, expect.stringMatching(exits)])
  expect(again.screen()).not.toContain('Stopped.')
  const serverPid = join(data, 'database', 'cluster', 'postmaster.pid')
  await until('its database has stopped', async () => !existsSync(serverPid) || undefined)
})
