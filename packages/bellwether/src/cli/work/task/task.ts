/**
 * `bellwether task …`: the board from the command line. Output is text, or one JSON object
 * with --json; exit code 0 ok, 1 failure, 2 usage.
 */
import { Command } from 'commander'
import { autopilotCommand } from './autopilot.js'
import { dispatchCommand } from './dispatch.js'
import { addCommand, boardCommands, doneCommand, moveCommands, retryCommand } from './edit.js'
import { listCommand, showCommand, synthesizeCommand, watchCommand } from './queries.js'

export function taskCommand(finish: (code: number) => void): Command {
  const task = new Command('task').description('manage the tasks of the board').helpCommand(false)
  addCommand(task)
  listCommand(task)
  showCommand(task)
  moveCommands(task)
  doneCommand(task)
  retryCommand(task)
  boardCommands(task)
  dispatchCommand(task, finish)
  autopilotCommand(task, finish)
  watchCommand(task)
  synthesizeCommand(task)
  return task
}
