/**
 * Chooses which fibre runs next. Uniform finds bugs that need many small switches; PCT (Burckhardt et al., ASPLOS 2010: random priorities, few
 * change points) finds bugs that need one fibre delayed at one place, which is most races, in far fewer runs. The seed chooses between them. A
 * strategy sees only which fibres can run; run.ts handles faults and time.
 */
import { prng, type Prng } from './prng.js'

export interface Choice {
  readonly fibre: string
  /** What the fibre does next if it is chosen. */
  readonly label: string
}

/** Returns the index of the choice. Choices of one fibre are adjacent, and fibres keep their spawn order. */
export type Strategy = (choices: readonly Choice[], step: number) => number

function uniform(random: Prng): Strategy {
  return (choices) => within(choices, random, pick([...new Set(choices.map(({ fibre }) => fibre))], random))
}

/** A fibre that polls without sleeping must not starve the others. */
const patience = 300

export function pct(random: Prng, changePoints: number, expectedSteps: number): Strategy {
  const priority = new Map<string, number>()
  const changes = new Set(Array.from({ length: changePoints }, () => random.below(expectedSteps)))
  let lowest = 0
  let last = ''
  let streak = 0
  return (choices, step) => {
    for (const { fibre } of choices) if (!priority.has(fibre)) priority.set(fibre, 1 + random.next())
    const top = (): string =>
      choices.reduce(
        (best, { fibre }) => (priority.get(fibre)! > priority.get(best)! ? fibre : best),
        choices[0]!.fibre,
      )
    if (changes.has(step) || streak >= patience) {
      lowest -= 1
      priority.set(top(), lowest)
      streak = 0
    }
    const fibre = top()
    streak = fibre === last ? streak + 1 : 0
    last = fibre
    return within(choices, random, fibre)
  }
}

/** Replays a list of numbers, each modulo the number of choices; after the end the first runnable fibre runs. */
export function replay(numbers: readonly number[]): Strategy {
  return (choices, step) => (numbers[step] ?? 0) % choices.length
}

export function strategyOf(seed: number): Strategy {
  const random = prng(seed).fork('schedule')
  if (random.chance(0.4)) return uniform(random)
  // Log-uniform between 16 and 1,024 steps: the engine cannot know how long the scenario is.
  const expectedSteps = Math.round(2 ** (4 + 6 * random.next()))
  return pct(random, 1 + random.below(4), expectedSteps)
}

function pick<T>(items: readonly T[], random: Prng): T {
  return items[random.below(items.length)]!
}

function within(choices: readonly Choice[], random: Prng, fibre: string): number {
  const own = choices.flatMap((choice, index) => (choice.fibre === fibre ? [index] : []))
  return own.length === 1 ? own[0]! : pick(own, random)
}
