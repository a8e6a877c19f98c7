/** How claude decides whether it may use a tool: its own flags, else the MCP tool of `--permission-prompt-tool`. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

/** Whether claude's own flags allow a tool: its permission mode, or a rule such as `Write`, `Bash(npm test)` or `Bash(git *)`. */
function isAllowed({ flags, value }, tool, input) {
  const mode = value('--permission-mode')
  if (mode === 'bypassPermissions' || flags.includes('--dangerously-skip-permissions')) return true
  if (mode === 'acceptEdits' && tool === 'Write') return true
  const rules = (value('--allowedTools') ?? value('--allowed-tools') ?? '').split(/[, ]+(?![^(]*\))/)
  return rules.some((rule) => {
    const [, name, what] = /^(\w+)(?:\((.*)\))?$/.exec(rule) ?? []
    if (name !== tool) return false
    if (what === undefined || what === input.command) return true
    return /[:\s]\*$/.test(what) && (input.command ?? '').startsWith(what.slice(0, -2))
  })
}

/** Starts the MCP server of `--permission-prompt-tool mcp__SERVER__TOOL`, as claude does, and asks it for one tool call. */
export async function permission(options, tool, input, id) {
  const { value } = options
  if (isAllowed(options, tool, input)) return { behavior: 'allow', updatedInput: input }
  const [, server, prompt] = /^mcp__(.+)__(.+)$/.exec(value('--permission-prompt-tool') ?? '') ?? []
  const target = input.file_path === undefined ? `use ${tool}` : `write to ${input.file_path}`
  if (server === undefined)
    return { behavior: 'deny', message: `Claude requested permissions to ${target}, but you haven't granted it yet.` }
  const config = value('--mcp-config')
  const { mcpServers } = JSON.parse(config.startsWith('{') ? config : readFileSync(config, 'utf8'))
  const expand = (text) => text.replaceAll(/\$\{(\w+)\}/g, (_, name) => process.env[name] ?? '')
  const { command, args = [], env = {} } = mcpServers[server]
  const own = Object.fromEntries(Object.entries(env).map(([key, text]) => [key, expand(text)]))
  const child = spawn(command, args.map(expand), {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...own },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines = createInterface({ input: child.stdout })
  const request = async (message) => {
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
    return JSON.parse((await once(lines, 'line'))[0])
  }
  const client = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'claude-code', version: '2' } }
  await request({ id: 1, method: 'initialize', params: client })
  child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })}\n`)
  const { result } = await request({ id: 2, method: 'tools/list', params: {} })
  if (!result.tools.some(({ name }) => name === prompt)) throw new Error(`MCP tool ${prompt} not found`)
  const params = { name: prompt, arguments: { tool_name: tool, input, tool_use_id: id } }
  const asked = await request({ id: 3, method: 'tools/call', params })
  child.kill()
  return JSON.parse(asked.result.content[0].text)
}

/** Uses a tool of claude; returns its result. */
export function useTool(tool, { file_path: path, content, command }) {
  if (tool !== 'Write') return execFileSync('/bin/sh', ['-c', command], { encoding: 'utf8' })
  writeFileSync(path, content)
  return `File created successfully at: ${path}`
}
