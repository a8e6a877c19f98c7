/** `bellwether questions`: what agents ask people, and the answers. An answer is the result of a tool call; whether it fits is judged by the house. */
import { InvalidInput } from '@bellwether/protocol'
import { Command } from 'commander'
import { answerQuestion, readQuestions, type Question } from '../client/questions.js'
import { openClient, toServer, type ServerFlags } from './client.js'
import { printLine, tell } from './output.js'
import { block, plain } from '../client/sanitize.js'
import { facts, instant } from './terminal.js'

export function questionsCommand(): Command {
  const questions = new Command('questions').description('what agents ask people, and the answers').helpCommand(false)
  toServer(questions.command('list', { isDefault: true }))
    .description('what waits for a person, the oldest first (without a verb, this)')
    .action(async (flags: ServerFlags) => {
      const found = await readQuestions(openClient(flags))
      if (flags.json === true) found.forEach(printLine)
      else process.stdout.write(`${found.length === 0 ? 'nobody waits for a person' : found.map(story).join('\n\n')}\n`)
    })
  toServer(questions.command('answer <question> <answer>'))
    .description('answer: words, one of the choices, or a JSON object with the fields that are asked for')
    .action(async (id: string, words: string, flags: ServerFlags) => {
      const client = openClient(flags)
      const said = await answerQuestion(client, id, { answer: valueOf(words) })
      tell(flags, said, () => (said.status === 'reported' ? 'answered' : 'nobody waits for this answer any more'))
    })
  toServer(questions.command('decline <question>'))
    .description('do not answer: the next person is asked')
    .option('--reason <text>', 'why')
    .action(async (id: string, flags: ServerFlags & { readonly reason?: string }) => {
      const said = await answerQuestion(openClient(flags), id, { declined: flags.reason ?? 'declined' })
      tell(flags, said, () => (said.status === 'reported' ? 'declined' : 'nobody waits for this answer any more'))
    })
  return questions
}

/** Words are words, unless they are a JSON object. */
function valueOf(words: string): unknown {
  if (!words.trimStart().startsWith('{')) return words
  try {
    return JSON.parse(words) as unknown
  } catch (error) {
    throw new InvalidInput('the answer begins like a JSON object and is none', {
      code: 'bad_answer',
      cause: error,
      hint: `'{"field": "value"}', or words that do not begin with {`,
    })
  }
}

function story(question: Question): string {
  const { to, question: words, instructions, choices, refused } = question.arguments
  const told = facts([
    ['id', question.tool_call_id],
    ['from', `${question.agent_id}, turn ${question.agent_turn_id}`],
    ['to', typeof to === 'string' ? to : 'anyone'],
    ['asked', instant(question.asked_at)],
    ['answer by', instant(question.deadline)],
    ...(Array.isArray(choices) ? [['choices', choices.map(String).join(', ')] as const] : []),
    ...(typeof refused === 'string' ? [['refused', refused] as const] : []),
    ...(typeof instructions === 'string' ? [['note', instructions] as const] : []),
  ])
  return `${block(typeof words === 'string' ? words : plain(JSON.stringify(question.arguments)))}\n${told}`
}
