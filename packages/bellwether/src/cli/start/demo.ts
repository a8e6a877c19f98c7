/** `bellwether demo`: runs the demo package, if it is installed. */
import { defined, environment, hasCode } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import { Command, InvalidArgumentError } from 'commander'
import { wholeUpTo } from '../shared/options.js'

interface Flags {
  readonly data: string
  readonly stay?: boolean
  readonly scripted?: boolean
  readonly model?: string
  readonly chaos?: boolean
  readonly minutes?: number
  readonly rounds?: number
  readonly seed?: number
  readonly quick?: boolean
  readonly json?: boolean
}

interface Common {
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly program: readonly string[]
}

/** The part of `@bellwether/demo` used here. That package depends on this one, so its types cannot be imported. */
interface DemoPackage {
  runDemo(options: Common & { stay: boolean; scripted: boolean; model?: string }): Promise<number>
  runChaos(
    options: Common & { seed: number; quick: boolean; json: boolean; minutes?: number; rounds?: number },
  ): Promise<number>
}

const seedMax = 2_147_483_647
const minutesMax = 10_080 // a week
const roundsMax = 10_000

export function demoCommand(finish: (code: number) => void): Command {
  return new Command('demo')
    .description('run a small fleet on this machine, inject faults, and check that every turn ended')
    .option('--data <dir>', 'folder for the project and its database', '.bellwether/demo')
    .option('--stay', 'keep the server running afterwards, until Ctrl-C')
    .option('--scripted', 'use scripted models even if the environment has a key')
    .option('--model <provider/model>', 'the real model to use (default: chosen by the keys in the environment)')
    .option('--chaos', 'inject faults until Ctrl-C, then report the result of every turn')
    .option('--minutes <n>', 'with --chaos: stop injecting faults after this many minutes', minutes)
    .option('--rounds <n>', 'with --chaos: stop after this many rounds of all faults', wholeUpTo(roundsMax))
    .option('--seed <n>', 'with --chaos: repeat the order of faults of this seed', wholeUpTo(seedMax))
    .option('--quick', 'with --chaos: freeze processes for less than a second instead of 30 to 90 s')
    .option('--json', 'with --chaos: print one JSON object, and the narration on stderr')
    .action(async (flags: Flags) => {
      const { chaos = false, minutes: length, rounds, seed, quick, json } = flags
      if (!chaos && [length, rounds, seed, quick, json].some((flag) => flag !== undefined)) {
        throw new InvalidInput('--minutes, --rounds, --seed, --quick and --json need --chaos', {
          code: 'invalid_option',
          hint: 'bellwether demo --chaos --minutes 5',
        })
      }
      const common = { dataDir: flags.data, env: environment(), program: [...process.execArgv, process.argv[1] ?? ''] }
      const demo = await loadDemo()
      finish(
        chaos
          ? await demo.runChaos({
              ...common,
              seed: seed ?? process.pid,
              quick: quick ?? false,
              json: json ?? false,
              ...defined({ minutes: length, rounds }),
            })
          : await demo.runDemo({
              ...common,
              stay: flags.stay ?? false,
              scripted: flags.scripted ?? false,
              ...defined({ model: flags.model }),
            }),
      )
    })
}

async function loadDemo(): Promise<DemoPackage> {
  const name: string = '@bellwether/demo'
  try {
    return (await import(name)) as DemoPackage
  } catch (error) {
    if (!hasCode(error, 'ERR_MODULE_NOT_FOUND')) throw error
    throw new Terminal(`Cannot run the demo: the package ${name} is not installed`, {
      code: 'demo_not_installed',
      cause: error,
      hint: `npm install ${name}`,
    })
  }
}

/** Fractions of a minute are allowed. */
function minutes(text: string): number {
  const value = Number(text)
  if (text.trim() !== '' && value > 0 && value <= minutesMax) return value
  throw new InvalidArgumentError(`It must be a number above 0, at most ${minutesMax}.`)
}
