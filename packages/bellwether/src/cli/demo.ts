/** `bellwether demo`: a fleet on this machine, with real crashes, for half a minute; ends with a table that SQL has checked. */
import { environment } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { Command, InvalidArgumentError } from 'commander'
import { runChaos } from '../demo/chaos/chaos.js'
import { runDemo } from '../demo/demo.js'
import { wholeUpTo } from './options.js'

interface Flags {
  readonly data: string
  readonly stay?: boolean
  readonly scripted?: boolean
  readonly model?: string
  readonly chaos?: boolean
  readonly minutes?: number
  readonly seed?: number
  readonly json?: boolean
}

const seedMax = 2_147_483_647
const minutesMax = 10_080 // a week

export function demoCommand(finish: (code: number) => void): Command {
  return new Command('demo')
    .description('run a small fleet here, crash it on stage, and show that every turn ended')
    .option('--data <dir>', 'where its project folder and database live', '.bellwether/demo')
    .option('--stay', 'keep the house up afterwards, until Ctrl-C')
    .option('--scripted', 'no real model, whatever keys the environment has')
    .option('--model <provider/model>', 'the real model that writes (default: by the keys in the environment)')
    .option('--chaos', 'attack the house until Ctrl-C, and tell what became of every turn')
    .option('--minutes <n>', 'with --chaos: end the attacks after so many minutes', minutes)
    .option('--seed <n>', 'with --chaos: deal the faults of that seed again', wholeUpTo(seedMax))
    .option('--json', 'with --chaos: one object on stdout, the narration on stderr')
    .action(async (flags: Flags) => {
      const { chaos = false, minutes: length, seed, json } = flags
      const common = { dataDir: flags.data, env: environment(), program: [...process.execArgv, process.argv[1] ?? ''] }
      if (!chaos && (length !== undefined || seed !== undefined || json !== undefined)) {
        throw new InvalidInput('--minutes, --seed and --json are for --chaos', {
          code: 'invalid_option',
          hint: 'bellwether demo --chaos --minutes 5',
        })
      }
      finish(
        chaos
          ? await runChaos({
              ...common,
              seed: seed ?? process.pid,
              json: json ?? false,
              ...(length === undefined ? {} : { minutes: length }),
            })
          : await runDemo({
              ...common,
              stay: flags.stay ?? false,
              scripted: flags.scripted ?? false,
              ...(flags.model === undefined ? {} : { model: flags.model }),
            }),
      )
    })
}

/** Parts of a minute are allowed: a first look need not last one. */
function minutes(text: string): number {
  const value = Number(text)
  if (text.trim() !== '' && value > 0 && value <= minutesMax) return value
  throw new InvalidArgumentError(`It must be a number above 0, at most ${minutesMax}.`)
}
