/** What waits for a person in the fixture data: approvals, grants and questions. */
import type { Approval, ApprovalGrant, Question } from '../../src/api/types.js'
import * as sample from './samples.js'
import { turnId, type At, type Say } from './strings.js'

export function approvalsOf(at: At, say: Say): Approval[] {
  return [
    sample.approvalOf({
      agent_id: say('coder-03'),
      agent_turn_id: turnId(3),
      tool_name: say('Edit'),
      arguments: {
        file_path: say('src/total.ts'),
        old_string: say('cents = price'),
        new_string: say('cents += price'),
      },
      asked_at: at(-20),
      deadline: at(900),
    }),
  ]
}

export function grantsOf(at: At, say: Say): ApprovalGrant[] {
  return [
    {
      grant_id: 'g1',
      agent_id: say('coder-03'),
      agent_turn_id: null,
      tool_name: 'Bash',
      arguments: { command: say('npm test') },
      any_arguments: [say('description')],
      granted_by: say('ann'),
      granted_at: at(-3_600),
      uses: 4,
      last_used_at: at(-60),
    },
  ]
}

export function questionsOf(at: At, say: Say): Question[] {
  const ask = (number: number, agent: string, deadline: number, args: object) =>
    sample.questionOf({
      tool_call_id: `ask-${number}`,
      agent_id: say(agent),
      agent_turn_id: turnId(number),
      arguments: { to: 'alice', ...args },
      asked_at: at(-120),
      deadline: at(deadline),
    })
  return [
    ask(1, 'deployer-07', 55, {
      question: say('The release notes mention a breaking change. Ship it today?'),
      choices: ['ship it', 'wait until Monday', say('neither')],
    }),
    ask(2, 'planner-03', 3_600, { question: say('Which customer is this for? I found two with that name.') }),
    ask(3, 'triage-06', 7_200, {
      question: say('Please rate this incident.'),
      result_fields: [
        { name: 'severity', type: 'integer', required: true, description: say('1 is worst') },
        { name: 'is_public', type: 'boolean', required: true },
        { name: 'note', type: 'string' },
        // A name that every object inherits.
        ...(say('') === '' ? [] : [{ name: '__proto__' }, { name: 'constructor', type: 'constructor' }]),
      ],
      refused: say('severity must be of type integer'),
    }),
  ]
}
