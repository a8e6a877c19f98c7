/**
 * Evaluation suites on the disk: stores the accepted files, makes agents of their variants, and runs their commands in the sandbox. Texts and
 * trails of cases are read from the folder evals/ of the project; links out of it are refused.
 */
import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { canonicalJson, defined, errorCode, systemClock, type Log } from '@bellwether/base'
import { openEvalDriver, type EvalDriver, type EvalDriverOptions } from '../../evals/driver.js'
import { commandsOf } from '../../evals/checks.js'
import { isSuiteFile, readSuiteFile, suiteNameOf, type ReadBeside, type ReadSuite } from '../../evals/suite-file.js'
import { suitesMax } from '../../kernel/reads/evals/runs.js'
import { deleteSuitesExcept, putSuite } from '../../kernel/verbs/evals/suites.js'
import { runCommand } from '../../ports/processes/run-command.js'
import { readRegularFile } from '../../settings/regular-file.js'
import type { Settings } from '../../settings/schema.js'
import type { DerivedAgent } from '../../worker/roster/folder.js'
import { isInside } from '../data-folder.js'
import { hashOf } from './files.js'
import { evalsFolder } from '../paths.js'
import type { Runtime } from '../runtime.js'
import { openCheckSandbox } from '../parts/board/check-sandbox.js'

const besideMaxBytes = 8_388_608

/** The suites of a folder, by name. `texts`: where the files of cases are; without it they are not read. */
function readSuites(folder: string, texts?: string): ReadonlyMap<string, ReadSuite> {
  const path = join(folder, evalsFolder)
  if (!existsSync(path)) return new Map()
  const files = readdirSync(path).filter(isSuiteFile).sort().slice(0, suitesMax)
  const beside = texts === undefined ? undefined : besideIn(join(texts, evalsFolder))
  return new Map(
    files.map((file) => {
      const shown = `${evalsFolder}/${file}`
      return [suiteNameOf(file), readSuiteFile(shown, readRegularFile(join(path, file)), beside)]
    }),
  )
}

const besideIn =
  (folder: string): ReadBeside =>
  (path) => {
    const wanted = `name a file in the folder ${evalsFolder}/, for example "refund.txt"`
    if (isAbsolute(path)) return { problem: `must be a relative path: ${wanted}` }
    try {
      const real = realpathSync(join(folder, path))
      if (!isInside(realpathSync(folder), real)) return { problem: `the file is outside of ${evalsFolder}/: ${wanted}` }
      if (statSync(real).size > besideMaxBytes)
        return { problem: `the file is larger than ${besideMaxBytes} bytes; shorten it` }
      return { text: readRegularFile(real) }
    } catch (error) {
      const code = errorCode(error)
      if (code === 'ENOENT' || code === 'ENOTDIR') return { problem: `the file does not exist: ${wanted}` }
      return { problem: `the file cannot be read (${code ?? 'unknown error'}): ${wanted}` }
    }
  }

/** The agents of the variants that change the instructions or the model of an agent. */
export async function readVariants(folder: string): Promise<DerivedAgent[]> {
  return [...readSuites(folder).values()].flatMap((read) =>
    'definition' in read
      ? read.definition.variants.flatMap(({ agent, runs, instructions, model }) =>
          runs === agent ? [] : [{ name: runs, from: agent, instructions, model }],
        )
      : [],
  )
}

export interface EvalFilesOptions {
  readonly runtime: Runtime
  readonly projectId: string
  /** The folder with the accepted files. */
  readonly accepted: string
  /** The project folder. */
  readonly folder: string
  /** The permanent name of the project folder: `host:path`. */
  readonly origin: string
  readonly log: Log
}

export interface EvalFiles {
  /** Stores the suites that changed. */
  step(): Promise<void>
  readonly isTrusted: EvalDriverOptions['isTrusted']
  /** Whether the folder has a suite: without one, no run can begin. */
  hasSuites(): boolean
}

export function openEvalFiles({ runtime, projectId, accepted, folder, origin, log }: EvalFilesOptions): EvalFiles {
  const { db } = runtime.kernel
  let trusted: ReadonlySet<string> = new Set()
  /** What this process has stored last: of two folders with the same suite, the one that changed last counts. */
  const stored = new Map<string, string>()
  return {
    async step() {
      const suites = readSuites(accepted, folder)
      trusted = commandsOf([...suites.values()].flatMap((read) => ('definition' in read ? [read.definition] : [])))
      for (const [suite, read] of suites) {
        const version = 'definition' in read ? read : { problem: read.problems.join('; ') }
        const mark = hashOf(JSON.stringify(version))
        if (stored.get(suite) === mark) continue
        const isNew = await putSuite(db, { projectId, suite }, { origin, read: version })
        stored.set(suite, mark)
        if (!isNew) continue
        if ('problem' in version) log.error({ suite, problem: version.problem }, 'evaluation suite invalid')
        else log.info({ suite }, 'evaluation suite loaded')
      }
      for (const suite of await deleteSuitesExcept(db, projectId, origin, [...suites.keys()])) {
        stored.delete(suite)
        log.info({ suite }, 'evaluation suite deleted, its file is gone')
      }
    },
    isTrusted: (command) => trusted.has(canonicalJson(command)),
    hasSuites: () => stored.size > 0,
  }
}

export interface EvalPartOptions extends EvalFilesOptions {
  readonly files: Pick<EvalFiles, 'isTrusted'>
  readonly settings: Settings
  readonly dataDir: string
}

// The end of what a check printed is its reason.
const reasonMax = 500

/** Drives the runs of the folder's suites; their commands run in the sandbox that agents have. */
export function openEvalPart({
  runtime,
  projectId,
  folder,
  origin,
  log,
  files,
  settings,
  dataDir,
}: EvalPartOptions): EvalDriver {
  const { kernel } = runtime
  const sandbox = openCheckSandbox({ log, settings, root: folder, dataDir })
  return openEvalDriver({
    kernel,
    projectId,
    origin,
    log,
    isTrusted: files.isTrusted,
    async runCheck({ command, timeoutSeconds, input, signal }) {
      const enter = sandbox({}, folder)
      const ran = await runCommand(
        {
          ...defined({ command, root: folder, enter, input, signal }),
          timeoutMs: timeoutSeconds * 1_000,
          endsWithProcess: true,
        },
        { clock: systemClock, ids: kernel.ids },
      )
      const output = ran.output.trim().slice(-reasonMax)
      if (ran.exitCode === 0) return { passed: true, reason: output === '' ? 'the command passed' : output }
      const how =
        ran.failure ??
        (ran.timedOut ? `it took longer than ${timeoutSeconds} s` : `exit code ${ran.exitCode ?? ran.signal ?? 'none'}`)
      return { passed: false, reason: output === '' ? how : `${how}: ${output}` }
    },
  })
}
