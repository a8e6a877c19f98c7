/**
 * Commands in a sandbox, with real namespaces: each escape attempt succeeds without the sandbox and fails in it. A machine that lacks a kind of
 * sandbox skips its tests and says so; with the capability to mount (CAP_SYS_ADMIN) every installed kind must work.
 */
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type AddressInfo, type Server } from 'node:net'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openWorktrees } from '../../../src/ports/git/worktrees.js'
import { freezeTree, thawTree } from '../../../src/ports/processes/freeze-tree.js'
import { runAs } from '../../../src/ports/processes/run-as.js'
import { separateSearchPath } from '../../../src/ports/search-path.js'
import { findSandbox, type SandboxKind } from '../../../src/ports/processes/sandbox/available.js'
import { openSandbox, type SandboxOptions } from '../../../src/ports/processes/sandbox/sandbox.js'
import { repositoryAt } from '../../support/git-repository.js'
import { testFolder } from '../../support/postgres.js'
import { recordedLog } from '../../support/recorded-log.js'
import { quietLog } from '../../support/quiet-log.js'
import { thorough } from '../../support/thorough.js'
import { until } from '../../support/until.js'
import { areStopped, carriers, openCommandSetup, type CommandSetup } from '../command-setup.js'

const isRoot = process.geteuid?.() === 0
const canMount =
  (Number.parseInt(/^CapEff:\s+(\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]?.slice(-8) ?? '0', 16) &
    (1 << 21)) !==
  0
const kinds = (['bubblewrap', 'namespaces'] as const).filter((kind) => {
  const found = findSandbox(undefined, kind)
  if (found.kind !== undefined) return true
  if (canMount && !found.why.includes('not installed')) throw new Error(`${kind} must work here: ${found.why}`)
  process.stderr.write(`skipped: the sandbox tests with ${kind}, because ${found.why}\n`)
  return false
})

const home = process.env['HOME']
const open: Server[] = []
let base = ''
let data = ''
const ports = { database: 0, server: 0 }
const abstract = `\0bellwether-test-${process.pid}`

const listen = async (server: Server, at: { port: number; host: string } | { path: string }) => {
  open.push(server)
  await new Promise<void>((resolve) => void server.listen(at, resolve))
  return (server.address() as AddressInfo | null)?.port ?? 0
}

beforeAll(async () => {
  base = await testFolder()
  data = join(base, 'data')
  for (const folder of ['home/.ssh', 'home/.config', 'outside', 'data'])
    mkdirSync(join(base, folder), { recursive: true })
  writeFileSync(join(base, 'home/.ssh/id_ed25519'), 'SECRET')
  writeFileSync(join(base, 'home/.netrc'), 'SECRET')
  writeFileSync(join(base, 'home/.gitconfig'), '[user]\n\tname = Ann\n\temail = ann@example.org\n')
  writeFileSync(join(base, 'outside/target'), 'SECRET')
  writeFileSync(join(data, 'admin-key'), 'SECRET')
  process.env['HOME'] = join(base, 'home')
  ports.database = await listen(
    createServer((socket) => socket.end('SECRET')),
    { port: 0, host: '127.0.0.1' },
  )
  ports.server = await listen(
    createHttpServer((_request, response) => response.end('SECRET')),
    { port: 0, host: '127.0.0.1' },
  )
  await listen(
    createServer((socket) => socket.end('SECRET')),
    { path: abstract },
  )
  await listen(
    createServer((socket) => socket.end('SECRET')),
    { path: join(base, 'outside/socket') },
  )
})
afterAll(async () => {
  process.env['HOME'] = home
  for (const server of open) server.close()
  await rm(base, { recursive: true, force: true })
})

const optionsFor = (folder: string): SandboxOptions => ({
  log: quietLog,
  root: folder,
  fallback: 'workspace',
  missing: 'refuse',
  sessions: join(data, 'sessions'),
  hidden: [data, join(folder, '.bellwether')],
  control: ['agents', 'config', 'bellwether.toml', 'state'],
})

async function setupWith(more: Partial<SandboxOptions>): Promise<CommandSetup> {
  const setup = await openCommandSetup({ sandbox: (folder) => openSandbox({ ...optionsFor(folder), ...more }) })
  const repository = repositoryAt(setup.folder)
  repository.git('init', '-q', '-b', 'main')
  for (const folder of ['agents', 'config', 'state', '.bellwether']) mkdirSync(join(setup.folder, folder))
  for (const file of [
    'agents/coder.md',
    'config/policy.json',
    'bellwether.toml',
    'state/tasks.jsonl',
    '.bellwether/up.json',
  ])
    writeFileSync(join(setup.folder, file), 'SECRET')
  repository.commit('start', { 'a.txt': 'one\n', '.gitignore': '.bellwether\nstate\nwork\n' })
  return setup
}

const connect = (to: string) =>
  `node -e 'require("net").connect(${to}).on("data", (text) => process.exit(String(text).includes("SECRET") ? 0 : 1)).on("error", () => process.exit(1)).on("close", () => process.exit(1))'`
const overProxy = (request: string) =>
  `[ -n "$HTTPS_PROXY" ] && node -e 'const s = require("net").connect(3128, "127.0.0.1"); s.on("data", (text) => process.exit(String(text).includes("SECRET") ? 0 : 1)).on("error", () => process.exit(1)).on("close", () => process.exit(1)); s.write("${request}\\r\\n\\r\\n")'`

/** What a hostile program tries. Each succeeds (exit code 0) if it gets through. */
const attempts = (worker: number): Readonly<Record<string, string>> => ({
  'write outside': `echo x > ${base}/outside/written`,
  'read a file outside': `grep -q SECRET ${base}/outside/target`,
  'read the keys of ssh': 'grep -q SECRET ~/.ssh/id_ed25519',
  'read another file of the home folder': `grep -q SECRET ${base}/home/.netrc`,
  'read the key of the administrator': `grep -q SECRET ${data}/admin-key`,
  'read .bellwether in the project': 'grep -q SECRET .bellwether/up.json',
  'connect to the database': connect(`${ports.database}, "127.0.0.1"`),
  'connect to the control plane': `node -e 'require("http").get("http://127.0.0.1:${ports.server}/", (answer) => process.exit(answer.statusCode === 200 ? 0 : 1)).on("error", () => process.exit(1))'`,
  'connect to a socket of the machine': connect(`"${base}/outside/socket"`),
  'connect to an abstract socket': connect(`"\\u0000${abstract.slice(1)}"`),
  'signal the worker': `kill -0 ${worker}`,
  'read the environment of the worker': `tr '\\0' '\\n' < /proc/${worker}/environ | grep -q PATH`,
  'write through a symbolic link': `ln -s ${base}/outside/linked link && echo x > link`,
  'write through a hard link': `ln ${base}/outside/target hard && echo x >> hard`,
  'plant a hook': 'echo "touch planted" > .git/hooks/post-checkout',
  'plant a setting of git': 'git config core.fsmonitor "touch planted"',
  'replace the repository': 'mv .git .git2 && mv .git2 .git',
  'change an agent': 'echo x >> agents/coder.md',
  'replace the agents': 'mv agents agents2 && mv agents2 agents',
  'change the settings': 'echo x > bellwether.toml',
  'change the log of tasks': 'echo x >> state/tasks.jsonl',
  'gain privileges with setuid': `grep -q 'NoNewPrivs:.0' /proc/self/status`,
  'write to the programs of the system': 'touch /usr/bin/planted && rm /usr/bin/planted',
  'mount a file system': 'mount -t tmpfs none work && umount work',
  'make the system writable': 'mount -o remount,rw,bind /usr || [ -w /usr ]',
  'make a device': 'mknod device c 1 5',
  'make user namespaces': 'unshare -Ur true',
  'read the passwords of the system': 'grep -q root /etc/shadow',
  'change a setting of the kernel':
    'old=$(cat /proc/sys/kernel/core_pattern) && echo "$old" > /proc/sys/kernel/core_pattern',
  'write to a file of the kernel':
    'find /proc -path "/proc/[0-9]*" -prune -o -type f -writable ! -perm -002 -print -quit | grep -q .',
})
const needsRoot = [
  'write to the programs of the system',
  'mount a file system',
  'make the system writable',
  'make a device',
  'read the passwords of the system',
  'change a setting of the kernel',
  'write to a file of the kernel',
]

const scriptOf = (all: Readonly<Record<string, string>>) =>
  `${Object.entries(all)
    .map(([name, attempt]) => `(${attempt}) > /dev/null 2>&1 && echo 'escaped: ${name}'`)
    .join('\n')}\necho x > ${base}/home/.bashrc; echo done`
const escaped = (text: string) => [...text.matchAll(/^escaped: (.*)$/gm)].map((found) => found[1])

it('without a sandbox, every escape attempt succeeds', async () => {
  const setup = await setupWith({ fallback: 'none' })
  const all = attempts(process.pid)
  const done = await setup.run({ command: scriptOf(all) })
  await setup.close()
  expect(done.text).toMatch(/done$/)
  expect(escaped(done.text)).toEqual(Object.keys(all).filter((name) => isRoot || !needsRoot.includes(name)))
  expect(existsSync(join(base, 'outside/written'))).toBe(true)
  expect(existsSync(join(base, 'home/.bashrc'))).toBe(true)
})

describe.each(kinds)('with %s', (kind: SandboxKind) => {
  // The rest does not depend on the kind.
  const isFull = thorough || kind === kinds[0]
  let setup: CommandSetup
  beforeAll(async () => {
    await rm(join(base, 'outside/written'), { force: true })
    await rm(join(base, 'home/.bashrc'), { force: true })
    setup = await setupWith({ kind })
  })
  afterAll(() => setup.close())

  it(`no escape attempt succeeds in a sandbox (${kind})`, async () => {
    const overTheProxy = {
      'connect to the database over the proxy': overProxy(`CONNECT 127.0.0.1:${ports.database} HTTP/1.1`),
      'read the control plane over the proxy': overProxy(
        `GET http://localhost:${ports.server}/ HTTP/1.1\\r\\nhost: localhost`,
      ),
    }
    const done = await setup.run({ command: scriptOf({ ...attempts(process.pid), ...overTheProxy }) })
    expect(done.text).toMatch(/done$/)
    expect(escaped(done.text)).toEqual([])
    expect(existsSync(join(base, 'outside/written'))).toBe(false)
    expect(existsSync(join(base, 'home/.bashrc'))).toBe(false)
    expect(readFileSync(join(base, 'outside/target'), 'utf8')).not.toContain('\nx')
    expect(readFileSync(join(setup.folder, 'agents/coder.md'), 'utf8')).toBe('SECRET')
  })

  it(`a command in a sandbox works in its folder, with a home and temporary files of its own (${kind})`, async () => {
    const command = `set -e; cat > prompt.txt; mkdir -p deep/er; echo made > deep/er/file; cd work
echo x > ~/.cache; echo x > /tmp/one; echo x > "$TMPDIR/two"; ls /tmp/one; git -C .. log --oneline; git config user.name; echo "home $HOME"; id -u`
    const done = await setup.run({ command, instructions: 'hello' })
    expect(done, `${done.error} ${done.text}`).toMatchObject({ outcome: 'success' })
    expect(done.text).toMatch(new RegExp(`/tmp/one\n\\w+ start\nAnn\nhome ${base}/home\n${process.geteuid?.()}$`))
    expect(readFileSync(join(setup.folder, 'prompt.txt'), 'utf8')).toContain('hello')
    expect(readFileSync(join(setup.folder, 'deep/er/file'), 'utf8')).toBe('made\n')
    expect(existsSync(join(base, 'home/.cache'))).toBe(false)
    expect((await setup.run({ command: 'exit 3' })).steps[0]!.metadata['exit']).toEqual({ how: 'exited', code: 3 })
  })

  it(`a program that an agent plants on the search path runs in its sandbox only (${kind})`, async () => {
    const bin = join(setup.folder, 'work/.bin')
    const whole = process.env['PATH']
    process.env['PATH'] = `${bin}:${whole}`
    separateSearchPath(setup.folder)
    const planted = join(base, 'outside/planted')
    const names = 'bwrap unshare setpriv git flock sh sleep mkdir mount grep realpath env cat node'
    const plant = `mkdir -p ${bin}; for name in ${names}; do printf '#!/bin/sh\\necho '$name' >> ${planted} || echo inside >> ${bin}/ran\\nexec '$(command -v $name)' "$@"\\n' > ${bin}/$name; chmod +x ${bin}/$name; done`
    expect(await setup.run({ command: plant })).toMatchObject({ outcome: 'success' })
    expect(await setup.run({ command: 'cat > /dev/null; echo ran' })).toMatchObject({ text: 'ran' })
    // Nor does what ends the processes of a command without a sandbox.
    const left = '/usr/bin/setsid /usr/bin/sleep 1000 > /dev/null 2>&1 & echo ran'
    expect(await setup.run({ command: left, sandbox: 'none' })).toMatchObject({ text: 'ran' })
    process.env['PATH'] = whole
    delete process.env['BELLWETHER_COMMAND_PATH']
    expect(existsSync(planted)).toBe(false)
    expect(readFileSync(join(bin, 'ran'), 'utf8')).toContain('inside')
  })

  it.runIf(isFull)(`the network of a sandbox is off, or has exactly what its agent file names (${kind})`, async () => {
    const ask = `curl -s -m 10 http://localhost:${ports.server}/ || echo refused`
    const off = await setup.run({ command: `${ask}; echo "proxy:$HTTPS_PROXY"`, network: 'off' })
    expect(off.text).toBe('refused\nproxy:')
    const named = await setup.run({ command: ask, network: [`localhost:${ports.server}`] })
    expect(named.text).toBe('SECRET')
    const overProxy = `curl -s -m 10 --noproxy '' -o /dev/null -w '%{http_code}' http://localhost:${ports.server}/; curl -s -m 10 --noproxy '' http://localhost:${ports.database}/`
    const listed = await setup.run({ command: overProxy, network: [`localhost:${ports.server}`] })
    expect(listed.text).toMatch(
      new RegExp(`^200The sandbox does not allow localhost:${ports.database}: add it to "network"`),
    )
    const on = await setup.run({
      command: `curl -s -m 10 --noproxy '' http://localhost:${ports.server}/`,
      network: 'on',
    })
    expect(on.text).toContain('an address of this machine')
  })

  it.runIf(isFull)(
    `no process of a sandbox is left when its turn ends or is stopped, and all of them can be frozen (${kind})`,
    async () => {
      const hide = `env -i setsid sh -c 'sleep 1000 & exec sleep 1000' &`
      const ended = await setup.run({ command: `${hide} sleep 0.1; echo out` })
      expect(ended).toMatchObject({ outcome: 'success', text: 'out' })
      expect(carriers(ended.agent_turn_id!)).toEqual([])
      const turn = await setup.begin({
        command: `trap '' TERM; ${hide} touch ready-${kind}; while :; do sleep 1; done`,
      })
      await until('the command runs', async () => existsSync(join(setup.folder, `ready-${kind}`)) || undefined)
      expect(carriers(turn).length).toBeGreaterThan(2)
      const wanted = (token: string) => token.includes(turn)
      await freezeTree({ clock: systemClock, wanted })
      expect(areStopped(turn, true)).toBe(true)
      await thawTree({ clock: systemClock, wanted })
      expect(areStopped(turn, false)).toBe(true)
      for (const scope of setup.worker.running.values()) scope.cancellation.cancel('failed')
      await until('the turn has stopped', async () => setup.worker.running.size === 0 || undefined)
      expect(carriers(turn)).toEqual([])
    },
  )

  it(`an agent commits in the worktree of its task, and can change neither the repository nor other branches (${kind})`, async () => {
    const repository = repositoryAt(setup.folder)
    const worktrees = openWorktrees({ root: setup.folder, folder: join(data, `worktrees-${kind}`), timeoutMs: 20_000 })
    const task = { taskId: `T-${kind}`, createdAt: '2026-01-01T00:00:00.000Z' }
    const opened = await worktrees.open(task, null)
    if ('missing' in opened) throw new Error(opened.missing)
    const main = repository.git('rev-parse', 'main')
    const common = join(setup.folder, '.git')
    const gitDir = join(common, 'worktrees', task.taskId)
    const hostile = {
      'plant a hook': `echo x > ${common}/hooks/pre-commit`,
      'plant a setting': 'git config core.fsmonitor "touch planted"',
      'plant a setting of the worktree': `echo x > ${gitDir}/config.worktree`,
      'lead git to another repository': `echo /tmp > ${gitDir}/commondir`,
      'replace the link to the repository': 'rm -f .git || mv .git .git2',
      'move the base': 'git update-ref refs/heads/main HEAD',
      'make a branch': 'git branch other',
      'delete objects': `find ${common}/objects /run/bellwether/objects -type f ! -name alternates -delete; ! git cat-file -e ${main}`,
      'read the project folder': `grep -q one ${setup.folder}/a.txt`,
    }
    const command = `${scriptOf(hostile)}
set -e; echo two >> a.txt; git commit -q -a -m 'Add two'; echo three >> a.txt; git add a.txt; echo four > b.txt
git log --oneline | wc -l; ln -s ${base}/outside/target ${gitDir}/COMMIT_EDITMSG2`
    const done = await setup.run({ command }, { payload: { worktree: opened.top } } as object)
    expect(done).toMatchObject({ outcome: 'success', text: expect.stringMatching(/^done\n2$/) })
    const snapshot = await worktrees.snapshot(task, { agent: 'coder', message: 'rest' })
    expect(snapshot).toMatchObject({ files: [{ path: 'a.txt' }, { path: 'b.txt' }] })
    expect(repository.git('rev-parse', 'main')).toBe(main)
    expect(repository.git('log', '--format=%an %s', `main..${opened.branch}`)).toBe('coder rest\nAnn Add two')
    expect(repository.git('show', `${opened.branch}:a.txt`)).toBe('one\ntwo\nthree')
    expect(repository.git('fsck', '--no-dangling')).toBe('')
    expect(existsSync(join(gitDir, 'COMMIT_EDITMSG2'))).toBe(false)
    await worktrees.close(task, { merged: [], isFinal: true })
  })

  it.runIf(isFull)(
    `a sandbox shows the login and settings of the coding agent, and keeps its sessions for the next turn (${kind})`,
    async () => {
      mkdirSync(join(base, 'home/.claude/projects/other'), { recursive: true })
      mkdirSync(join(base, 'home/bin'), { recursive: true })
      for (const file of ['settings.json', '.credentials.json', 'history.jsonl'])
        writeFileSync(join(base, 'home/.claude', file), file)
      writeFileSync(join(base, 'home/.claude.json'), '{}')
      const claude = join(base, 'home/bin/claude')
      writeFileSync(
        claude,
        `#!/bin/sh
read -r prompt; cd ~/.claude; { ls -A . projects; cat settings.json .credentials.json; echo x > settings.json || echo kept
echo renewed > .credentials.json; echo x > projects/session-${kind}; echo y >> ~/.claude.json; } > "$OLDPWD/seen" 2>&1
echo '{"type":"result","result":"ok"}'`,
      )
      chmodSync(claude, 0o755)
      const before = process.env['PATH']
      process.env['PATH'] = `${join(base, 'home/bin')}:${before}`
      const agentId = `claude-${kind}`
      expect(await setup.run({ preset: 'claude' }, { agentId })).toMatchObject({ outcome: 'success' })
      const seen = readFileSync(join(setup.folder, 'seen'), 'utf8')
      expect(seen).toMatch(/settings\.json\.credentials\.json/)
      expect(seen).toContain('kept')
      expect(seen).not.toMatch(/history|other/)
      expect(readFileSync(join(base, 'home/.claude/.credentials.json'), 'utf8')).toBe('renewed\n')
      expect(readFileSync(join(base, 'home/.claude.json'), 'utf8')).toBe('{}')
      await setup.run({ preset: 'claude' }, { agentId })
      expect(readFileSync(join(setup.folder, 'seen'), 'utf8')).toContain(`session-${kind}`)
      process.env['PATH'] = before
    },
  )
})

it.runIf(isRoot)('a command in a sandbox runs as the account of worker.run_as', async () => {
  const account = runAs('nobody')
  for (const kind of kinds) {
    const setup = await openCommandSetup({
      sandbox: (folder) => openSandbox({ ...optionsFor(folder), kind, runAs: account }),
      runAs: account,
    })
    chownSync(setup.folder, account.account.uid, account.account.gid)
    const done = await setup.run({
      command: `id -u; echo x > made; echo x > ~/made; grep -q SECRET ${base}/outside/target || echo kept; unshare -Ur true 2> /dev/null || echo last`,
    })
    await setup.close()
    expect(done).toMatchObject({ outcome: 'success', text: `${account.account.uid}\nkept\nlast` })
  }
})

it('without a sandbox on the machine, an agent file that asks for one fails the turn, and the default warns and says how to install it', async () => {
  const path = process.env['PATH']
  const empty = join(base, 'empty')
  mkdirSync(empty)
  const log = recordedLog()
  const setup = await setupWith({ missing: 'warn', log: log.log })
  process.env['PATH'] = empty
  const refused = await setup.run({ command: 'echo ran', sandbox: 'workspace' })
  const warned = await setup.run({ command: 'echo ran' })
  process.env['PATH'] = path
  await setup.close()
  expect(refused).toMatchObject({ outcome: 'failed' })
  expect(refused.text).toMatch(/Cannot run the command in a sandbox: bubblewrap: not installed.*apt install bubblewrap/)
  expect(warned).toMatchObject({ outcome: 'success', text: 'ran' })
  expect(log.lines).toContainEqual(
    expect.objectContaining({ level: 'warn', message: 'command runs without a sandbox' }),
  )
})
