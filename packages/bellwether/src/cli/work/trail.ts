/** `bellwether turn replay`, `fork`, `export` and `import`: what can be done with the trail of an ended turn. */
import { InvalidInput } from '@bellwether/protocol'
import type { ForkEdit, ReplayReport, Trail } from '@bellwether/protocol/http'
import type { Command } from 'commander'
import { block, plain } from '../../client/sanitize.js'
import { forkTurn, readTurn } from '../../client/turns.js'
import { openClient, toServer, type ServerFlags } from '../shared/client.js'
import { readInstruction } from '../shared/instruction.js'
import { wholeUpTo } from '../shared/options.js'
import { exitCodes, print, printLine } from '../shared/output.js'
import { runStarted, type Finish, type RunFlags } from './run-started.js'

const stepMax = 1_000_000
// The server's limit of a request.
const fileMaxBytes = 8_388_608

export function addTrailVerbs(turn: Command, finish: Finish): void {
  toServer(turn.command('replay <turn>'))
    .description(
      'make the decisions of an ended turn again from its cards, without models and tools; exit code 1 if one differs',
    )
    .action(async (id: string, flags: ServerFlags) => {
      const client = openClient(flags)
      const report = await client.ask('GET /projects/:project/turns/:turn/replay', { params: { turn: id } })
      print(flags, report, () => replayText(report))
      finish(report.result === 'exact' ? exitCodes.ok : exitCodes.failure)
    })
  toServer(turn.command('fork <turn>'))
    .description('start a new turn from a step of an ended one, and wait for its deliverable')
    .requiredOption('--at <step>', 'keep the steps up to this one; 0 keeps none', wholeUpTo(stepMax))
    .option('--edit <file>', 'a JSON file with "instruction", "results" (by tool call id) or "message"; - reads stdin')
    .option('--no-wait', 'print the id of the new turn instead of waiting for its end')
    .option('--idempotency-key <key>', 'a repeated request with the same key returns the same turn')
    .action(async (id: string, flags: RunFlags & { readonly at: number; readonly edit?: string }) => {
      const client = openClient(flags)
      const edit =
        flags.edit === undefined
          ? {}
          : {
              edit: await readJson<ForkEdit>(
                flags.edit,
                'the edit',
                'write an object, for example {"instruction": "…"}',
              ),
            }
      const { agent_id: agent } = await readTurn(client, id)
      const start = (key: string, ports: Parameters<typeof forkTurn>[4]) =>
        forkTurn(client, id, { at: flags.at, ...edit }, key, ports)
      finish(await runStarted(client, agent, flags, start))
    })
  toServer(turn.command('export <turn>'))
    .description('print an ended turn as one JSON document, with everything that its agent read and wrote')
    .action(async (id: string, flags: ServerFlags) =>
      printLine(await openClient(flags).ask('GET /projects/:project/turns/:turn/export', { params: { turn: id } })),
    )
  toServer(turn.command('import <file>'))
    .description('store a turn that was exported elsewhere; it is shown and replayed, and never run')
    .action(async (file: string, flags: ServerFlags) => {
      const body = await readJson<Trail>(file, 'the trail', 'give a file that `bellwether turn export` wrote')
      const imported = await openClient(flags).ask('POST /projects/:project/imports', { body })
      print(flags, imported, () =>
        plain(`${imported.agent_turn_id}  imported  ${imported.agent_id}  ${imported.outcome}`),
      )
    })
}

async function readJson<T>(file: string, what: string, hint: string): Promise<T> {
  const text = await readInstruction(file, fileMaxBytes, what)
  try {
    return JSON.parse(text) as T
  } catch (cause) {
    throw new InvalidInput(`Cannot read ${what} from ${file}: it is not JSON`, { code: 'not_json', hint, cause })
  }
}

function replayText(report: ReplayReport): string {
  const { difference, steps } = report
  const lines = [
    `${report.agent_turn_id}  ${report.result}  ${report.executor}${report.rerun ? '' : ' (not run again)'}`,
    ...steps.map(({ step, title, result }) => `  step ${step}  ${result.replaceAll('_', ' ')}  ${title}`),
    `  compared: ${report.compared}`,
    `  deliverable: ${report.deliverable.recorded_sha256 ?? 'none'}`,
  ].map(plain)
  if (difference === null) return lines.join('\n')
  const place = difference.step === null ? '' : `step ${difference.step}: `
  return [
    ...lines,
    plain(`  first difference: ${place}${difference.what}`),
    `    recorded: ${block(difference.recorded)}`,
    `    replayed: ${block(difference.replayed)}`,
  ].join('\n')
}
