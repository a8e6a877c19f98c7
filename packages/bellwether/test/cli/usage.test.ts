/** Help, and suggestions for wrong usage: commands that need no server. */
import { expect, it } from 'vitest'
import { testFolder } from '../support/postgres.js'
import { inProcess } from './running-up.js'

it('prints help and suggestions for wrong usage', async () => {
  const cases: [string[], number, string][] = [
    [['--version'], 0, '0.1.0'],
    [['--help'], 0, 'New here?'],
    [['help'], 0, 'New here?'],
    [[], 0, 'New here?'],
    [['help', 'turn'], 0, 'watch [options] <turn>'],
    [['turn'], 0, 'watch [options] <turn>'],
    [['turn', 'run', '--help'], 0, 'Examples:\n  bellwether turn run greeter "Good morning"'],
    [['agents', '--watch', '--json'], 2, 'use --jsonl'],
    [['turn', 'list', '--json', '--jsonl'], 2, 'cannot be used with'],
    [['turn', 'list', '--since', 'yesterday'], 2, 'a span such as 90s, 10m'],
    [['agnets'], 2, 'Did you mean: bellwether agents?'],
    [['--verison'], 2, 'Did you mean: bellwether --version?'],
    [['constructor'], 2, 'unknown command'],
    [['view', 'tre'], 2, 'Did you mean: bellwether view tree?'],
    [['agents', 'shwo', 'x'], 2, 'Did you mean: bellwether agents show?'],
    [['turn', 'wacth', 'x'], 2, 'Did you mean: bellwether turn watch?'],
    [['watchdog', '--folow'], 2, 'Did you mean --follow?'],
    // Nothing is similar: no suggestion is better than a wrong one.
    [['run', 'greeter', 'hi'], 2, 'Did you mean: bellwether turn run?'],
    [['start'], 2, 'Did you mean: bellwether up?'],
    [['--json', 'turn', 'list'], 2, 'Options come after the command: bellwether turn list --json'],
    [['frobnicate'], 2, 'See: bellwether --help'],
    [['turn', 'frobnicate'], 2, 'It has: run, '],
    [['turn', 'list', '--frobnicate'], 2, 'See: bellwether turn list --help'],
    [['turn', 'list', '--limit', '0'], 2, 'whole number from 1'],
    [['turn', 'run', 'echo'], 2, 'A turn needs an instruction'],
    [['turn', 'stop'], 2, 'name turns, or give --all'],
    [['turn', 'stop', 't', '--all'], 2, 'name turns, or give --all'],
    [['turn', 'retry', 'a', 'b', '--agent', 'coder'], 2, 'cannot be combined'],
    [['task', 'bulk', 'retry'], 2, 'name tasks, or give --all'],
    [['task', 'bulk', 'assign', 'T-1'], 2, 'needs --to AGENT'],
    [['task', 'bulk', 'done', 'T-1'], 2, 'Allowed choices'],
    [['keys', 'create', '--role', 'king'], 2, 'one of admin'],
  ]
  for (const [args, code, text] of cases) {
    const result = await inProcess(args)
    expect([result.code, code === 0 ? result.err : result.out], args.join(' ')).toEqual([code, ''])
    expect(result.out + result.err, args.join(' ')).toContain(text)
  }
})

it('task watch leaves no listener behind', async () => {
  const root = await testFolder()
  await inProcess(['task', 'add', 'one', '--root', root])
  const count = () => ['SIGINT', 'SIGTERM', 'SIGHUP'].map((name) => process.listenerCount(name))
  const before = [...count(), process.stdout.listenerCount('error')]
  expect((await inProcess(['task', 'watch', '--once', '--root', root])).out).toContain('task_created')
  expect([...count(), process.stdout.listenerCount('error')]).toEqual(before)
})
