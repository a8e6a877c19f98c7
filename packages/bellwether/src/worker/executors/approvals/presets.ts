/** Which coding agents can ask for permission while no person is at their terminal, and with which flags. Pure. */
import type { PresetName, Recipe } from '../presets.js'

// Claude Code waits this long for a tool of an MCP server: as long as a timer can, and longer than any deadline.
const toolTimeoutMs = 2_147_000_000
export const askingMaxSeconds = 2_000_000

interface Asking {
  readonly args: (bridge: readonly string[]) => readonly string[]
  readonly env: Readonly<Record<string, string>>
}

const asking: Partial<Record<PresetName, Asking>> = {
  claude: {
    args: ([command, ...args]) => [
      ...['--permission-prompt-tool', 'mcp__bellwether__approve'],
      ...['--mcp-config', JSON.stringify({ mcpServers: { bellwether: { command, args } } })],
    ],
    env: { MCP_TOOL_TIMEOUT: String(toolTimeoutMs) },
  },
}

const bypassing = ['--dangerously-skip-permissions', 'bypassPermissions', '--permission-prompt-tool']

/** The recipe with the flags for asking through this MCP server, and their variables. A command of its own uses the socket. */
export function askingRecipe<One extends Recipe>(
  recipe: One,
  bridge: readonly string[],
): { readonly recipe: One; readonly env: Asking['env'] } {
  const preset = recipe.preset === undefined || recipe.command !== undefined ? undefined : asking[recipe.preset]
  if (preset === undefined) return { recipe, env: {} }
  return { recipe: { ...recipe, args: [...preset.args(bridge), ...(recipe.args ?? [])] }, env: preset.env }
}

/** Why `approve: ask` has no effect with these settings. */
export function askingProblem({ preset, command, args = [] }: Recipe): string | undefined {
  if (command !== undefined || preset === undefined) return undefined
  if (asking[preset] === undefined)
    return `"approve: ask" cannot be used with preset "${preset}", which cannot ask while it runs unattended. Use preset "claude", or limit what it may do with "args" (docs/how-to/approve-what-agents-do.md)`
  const bypass = args.find((arg) => bypassing.some((one) => arg === one || arg.endsWith(`=${one}`)))
  return bypass === undefined ? undefined : `"approve: ask" has no effect with ${bypass} in "args". Remove one of them`
}
