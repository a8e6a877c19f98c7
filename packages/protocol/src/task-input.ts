/**
 * What people and programs may write into a task of the board, over HTTP and on the command line. Every value is bounded,
 * and an unknown key is an error. Whether the board accepts the change is for the board to decide.
 */
import { z } from './deferred.js'
import { branchPattern, mergeModes, workspaceKinds } from './vocabulary.js'

const line = (max: number) => z.string().trim().min(1).max(max)
const taskId = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$/, 'must be 1 to 128 letters, digits and . _ : @ -')
// Wide enough for any numbering scheme; finite, so that tasks can be ordered.
const weight = z.number().min(-1_000_000).max(1_000_000)
const program = z.union([line(8_192), z.array(z.string().max(8_192)).min(1).max(256)])

const fields = {
  title: line(500),
  instruction: z.string().max(100_000),
  priority: weight,
  impact: weight,
  dependencies: z.array(taskId).max(1_000),
  role: line(128),
  agent: line(128),
  capabilities: z.array(line(128)).max(50).describe('what the agent must be able to do, by the runtime policy'),
  checks: z
    .array(line(128))
    .max(50)
    .describe('names of checks that must pass; `checks` of config/acceptance-policy.json defines them'),
  verify: z
    .array(
      z.union([
        program,
        z.strictObject({
          command: program,
          timeoutSec: z.number().min(0.1).max(86_400).optional(),
          cwd: line(4_096).optional(),
        }),
      ]),
    )
    .max(50)
    .describe('commands that must pass; over HTTP only for an unlimited admin, if server.admin_commands is true'),
  review: z.boolean().describe('a person reviews the task after acceptance'),
  requiresApproval: z.boolean(),
  workspace: z.enum(workspaceKinds).describe('`worktree`: its runs work in a git worktree of their own'),
  base: z
    .string()
    .regex(branchPattern, 'must be the name of a branch')
    .describe('the branch that the worktree is made from and merged into'),
  merge: z.enum(mergeModes).describe('what happens to the change in the worktree after acceptance'),
}

export const newTask = z
  .strictObject({ ...fields, taskId })
  .partial()
  .required({ title: true })
export type NewTask = z.output<typeof newTask>

/** Fields that can change without a transition. */
export const taskChange = z.strictObject(fields).partial()
export type TaskChange = z.output<typeof taskChange>
