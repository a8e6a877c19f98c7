/** `bellwether questions`: lists and answers the questions of agents to people. The server checks an answer. */
import { errorMessage } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Question } from '@bellwether/protocol/http'
import { Command } from 'commander'
import { answerQuestion, argumentsOf, questionsMax } from '../../client/questions.js'
import { openClient, toServer, type ServerFlags } from '../shared/client.js'
import { print, printList } from '../shared/output.js'
import { jsonLines } from '../shared/options.js'
import { block, plain } from '../../client/sanitize.js'
import { facts, instant } from '../shared/terminal.js'

export function questionsCommand(): Command {
  const questions = new Command('questions')
    .description('list and answer the questions of agents to people')
    .helpCommand(false)
  toServer(questions.command('list', { isDefault: true }))
    .description('list open questions, oldest first (the default)')
    .addOption(jsonLines())
    .action(async (flags: ServerFlags) => {
      const query = { limit: questionsMax }
      const { questions: open } = await openClient(flags).ask('GET /projects/:project/questions', { query })
      printList(flags, { questions: open }, open, () =>
        open.length === 0 ? 'No open questions' : open.map(questionText).join('\n\n'),
      )
    })
  toServer(questions.command('answer <question> <answer>'))
    .description('answer with text, one of the choices, or a JSON object with the requested fields')
    .action(async (id: string, text: string, flags: ServerFlags) => {
      const client = openClient(flags)
      const report = await answerQuestion(client, id, { answer: parseAnswer(text) })
      print(flags, report, () => (report.status === 'reported' ? 'Answered' : 'This question is no longer open'))
    })
  toServer(questions.command('decline <question>'))
    .description('decline to answer; the next person is asked')
    .option('-r, --reason <text>', 'the reason')
    .action(async (id: string, flags: ServerFlags & { readonly reason?: string }) => {
      const report = await answerQuestion(openClient(flags), id, { declined: flags.reason ?? 'declined' })
      print(flags, report, () => (report.status === 'reported' ? 'Declined' : 'This question is no longer open'))
    })
  return questions
}

/** Text that starts with { must be a JSON object. */
function parseAnswer(text: string): unknown {
  if (!text.trimStart().startsWith('{')) return text
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    throw new InvalidInput(`Invalid answer: it starts with "{" but is not valid JSON: ${errorMessage(error)}`, {
      code: 'bad_answer',
      cause: error,
      hint: `write '{"field": "value"}', or text that does not start with "{"`,
    })
  }
}

function questionText(question: Question): string {
  const { to, question: text, instructions, choices, refused } = argumentsOf(question)
  const fields = facts([
    ['id', question.tool_call_id],
    ['from', `${question.agent_id}, turn ${question.agent_turn_id}`],
    ['to', typeof to === 'string' ? to : 'anyone'],
    ['asked', instant(question.asked_at)],
    ['answer by', instant(question.deadline)],
    ...(Array.isArray(choices) ? [['choices', choices.map(String).join(', ')] as const] : []),
    ...(typeof refused === 'string' ? [['rejected', refused] as const] : []),
    ...(typeof instructions === 'string' ? [['note', instructions] as const] : []),
  ])
  return `${block(typeof text === 'string' ? text : plain(JSON.stringify(question.arguments)))}\n${fields}`
}
