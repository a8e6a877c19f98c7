/** `bellwether migrate-config-v2`: what would bring config/runtime-policy.json to its second version; with --apply does it. */
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'
import type { Command } from 'commander'
import { migrateConfig, type Migration } from '../board/repair/migrate-run.js'
import { exitCodes } from './output.js'
import { applies, rootCommand, shown, tell, toolPorts, type RootFlags } from './task-root.js'

export function migrateConfigCommand(finish: (code: number) => void): Command {
  return rootCommand(
    'migrate-config-v2',
    'bring config/runtime-policy.json of a task root to its second version',
  ).action(async (flags: RootFlags) => {
    const root = folder(flags.root)
    const migration = await migrateConfig(root, applies(flags), toolPorts())
    tell(flags, { ...migration, root }, () => human(migration, root))
    finish(migration.ok ? exitCodes.ok : exitCodes.failure)
  })
}

function folder(path: string): string {
  const root = resolve(path)
  if (statSync(root, { throwIfNoEntry: false })?.isDirectory() === true) return root
  throw new InvalidInput(`${root} is no folder`, { code: 'no_such_root', hint: '--root names the task root' })
}

function human({ path, summary, risks, diff, backup, rollbackHint }: Migration, root: string): readonly string[] {
  // A parser's complaint repeats what stands in the file.
  const lines = [`${path}: ${summary.replaceAll(/\p{C}/gu, '·')}`]
  const sample = (word: string, paths: readonly string[]) =>
    paths.forEach((one) => lines.push(`  ${word} ${shown(one)}`))
  sample('+', diff.sampleAdded)
  sample('~', diff.sampleChanged)
  sample('-', diff.sampleRemoved)
  for (const risk of risks) lines.push(`Beware: ${risk}`)
  if (backup !== null) lines.push(`The old file is kept: ${backup}`)
  if (rollbackHint !== null) lines.push(`To go back, in ${root}: ${rollbackHint}`)
  return lines
}
