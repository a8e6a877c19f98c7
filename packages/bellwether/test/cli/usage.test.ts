/** Help, and suggestions for wrong usage: commands that need no server. */
import { expect, it } from 'vitest'
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
    [['turn', 'list', '--limit', '0'], 2, 'whole number from 1'],
    [['turn', 'run', 'echo'], 2, 'A turn needs an instruction'],
    [['keys', 'create', '--role', 'king'], 2, 'one of admin'],
  ]
  for (const [args, code, text] of cases) {
    const result = await inProcess(args)
    expect([result.code, code === 0 ? result.err : result.out], args.join(' ')).toEqual([code, ''])
    expect(result.out + result.err, args.join(' ')).toContain(text)
  }
})
