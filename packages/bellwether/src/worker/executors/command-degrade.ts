/**
 * What degrade actions change in the run of a command. A program cannot be changed while it runs, so the actions of a run apply from
 * its start. Pure.
 */
import { defined } from '@bellwether/base'
import type { DegradeAction } from '@bellwether/protocol'
import type { Degraded } from '../degrade.js'
import type { Hydrated } from '../hydrate.js'
import type { Recipe } from './presets.js'
import { resultMark } from './stored-result.js'

/** The environment variable that names the actions of the run, separated by commas. */
export const degradeVariable = 'BELLWETHER_DEGRADE'

interface RunShape extends Pick<Hydrated, 'context' | 'memory' | 'output'> {
  readonly recipe: Recipe
}

/** The recipe of a run and the cards in its prompt, after the degrade actions of the run. */
export function degradedRun(
  spec: Recipe & { readonly cheaper_model?: string | undefined },
  { context, memory, output }: Pick<Hydrated, 'context' | 'memory' | 'output'>,
  now: readonly DegradeAction[],
): RunShape & { readonly degraded: readonly Degraded[] } {
  const degraded: Degraded[] = []
  // The result of a command is also its deliverable.
  const written = (cards: Hydrated['output']) => cards.filter((card) => card.metadata[resultMark] === undefined)
  const all = { context, memory: written(memory), output: written(output) }
  let shape: RunShape = { recipe: spec, ...all }
  for (const action of now) {
    if (action === 'reduced_context') {
      const tasks = context.filter(({ type }) => type.startsWith('task.'))
      shape = { ...shape, context: tasks, memory: [], output: [] }
      const count = context.length + all.memory.length + all.output.length
      degraded.push({ action, without_cards: count - tasks.length })
    } else if (action === 'cheaper_model' && spec.cheaper_model !== undefined) {
      shape = { ...shape, recipe: { ...spec, model: spec.cheaper_model } }
      degraded.push({ action, model: spec.cheaper_model, ...defined({ instead_of: spec.model }) })
    } else if (action === 'cheaper_model' || action === 'fewer_tools') {
      // Only the program can do it: it reads the variable.
      degraded.push({ action, variable: degradeVariable })
    }
  }
  return { ...shape, degraded }
}
