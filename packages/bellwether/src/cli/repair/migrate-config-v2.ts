/** `bellwether migrate-config-v2`: shows how config/runtime-policy.json changes in version 2, and with --apply writes it. */
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'
import type { Command } from 'commander'
import { migrateConfig, type Migration } from '../../board/repair/migrate-run.js'
import { exitCodes } from '../shared/output.js'
import { applies, rootCommand, sanitized, printReport, toolPorts, type RootFlags } from './task-root.js'

export function migrateConfigCommand(finish: (code: number) => void): Command {
  return rootCommand('migrate-config-v2', 'migrate config/runtime-policy.json of a task root to version 2')
    .option('--text', 'print text for people; without it, the summary is one JSON object')
    .action(async (flags: RootFlags & { readonly text?: boolean }) => {
      const root = folder(flags.root)
      const migration = await migrateConfig(root, applies(flags), toolPorts())
      printReport({ ...flags, json: flags.text !== true }, { ...migration, root }, () => formatText(migration, root))
      finish(migration.ok ? exitCodes.ok : exitCodes.failure)
    })
}

function folder(path: string): string {
  const root = resolve(path)
  if (statSync(root, { throwIfNoEntry: false })?.isDirectory() === true) return root
  throw new InvalidInput(`Cannot open task root ${root}: it is not a folder.`, {
    code: 'no_such_root',
    hint: 'Name the task root with --root DIR.',
  })
}

function formatText({ path, summary, risks, diff, backup, rollbackHint }: Migration, root: string): readonly string[] {
  // The message of a JSON parser quotes the file, which may contain control characters.
  const lines = [`${path}: ${summary.replaceAll(/\p{C}/gu, '·')}`]
  const sample = (word: string, paths: readonly string[]) =>
    paths.forEach((one) => lines.push(`  ${word} ${sanitized(one)}`))
  sample('+', diff.sampleAdded)
  sample('~', diff.sampleChanged)
  sample('-', diff.sampleRemoved)
  for (const risk of risks) lines.push(`Risk: ${risk}`)
  if (backup !== null) lines.push(`Backup of the old file: ${backup}`)
  if (rollbackHint !== null) lines.push(`To undo, run in ${root}: ${rollbackHint}`)
  return lines
}
