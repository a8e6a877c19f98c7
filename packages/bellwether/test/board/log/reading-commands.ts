/** Runs every reading command of `bellwether task` on the folder in argv, in one process; fails at the first error. */
import { loadTask } from '../../../src/cli/work/task/task.js'

const [root = ''] = process.argv.slice(2)
for (const words of [['list', '--all'], ['show', 'T-1'], ['watch', '--once'], ['synthesize']]) {
  process.stdout.write(`== ${words[0]}\n`)
  await (await loadTask(words[0]))(() => undefined).parseAsync([...words, '--root', root], { from: 'user' })
}
