/** A question of an agent and the form that answers it: text, a choice, or named fields. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useId, useState, type ReactNode, type SubmitEvent } from 'react'
import { sendAnswer } from '../../api/mutations.js'
import type { FieldSpec, Question, ToolAnswer } from '../../api/types.js'
import { answerOf, questionIn, words, type ParsedQuestion, type Draft } from '../../model/question.js'
import { oneLine } from '../../model/text.js'
import { UntrustedText } from '../../parts/untrusted-text.js'
import { Chip } from '../../parts/status.js'
import { RequestHeader } from './request-header.js'

export function QuestionCard({ project, question }: { readonly project: string; readonly question: Question }) {
  const parsed = questionIn(question)
  const [draft, setDraft] = useState<Draft>(new Map())
  const [wrong, setWrong] = useState<Draft>(new Map())
  const client = useQueryClient()
  const send = useMutation({
    mutationFn: (answer: ToolAnswer) => sendAnswer(project, question.tool_call_id, answer),
    onSuccess: () => client.invalidateQueries({ queryKey: ['questions', project] }),
  })
  const put = (name: string, value: string) => setDraft((old) => new Map(old).set(name, value))
  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault()
    const read = answerOf(parsed, draft)
    setWrong('wrong' in read ? read.wrong : new Map())
    if ('answer' in read) send.mutate(read.answer)
  }
  const decline = () =>
    send.mutate({
      status: 'canceled',
      error: { code: 'declined', message: draft.get(words) || 'declined from the dashboard' },
    })
  const isSent = send.isSuccess
  return (
    <article className="panel px-4 py-3" aria-label={`Question of ${oneLine(question.agent_id, 80)}`}>
      <RequestHeader project={project} request={question} end="due in">
        {parsed.to !== null && <span className="text-sm text-ink-3">asks {oneLine(parsed.to, 60)}</span>}
      </RequestHeader>
      {parsed.refused !== null && (
        <p className="mt-1 text-sm">
          <Chip tone="bad">the last answer was rejected</Chip> <bdi>{oneLine(parsed.refused, 300)}</bdi>
        </p>
      )}
      <div className="my-2">
        <UntrustedText text={parsed.text} />
      </div>
      {parsed.instructions !== null && (
        <div className="my-2 text-sm text-ink-2">
          <UntrustedText text={parsed.instructions} />
        </div>
      )}
      <form onSubmit={submit} className="space-y-2" aria-label="Answer">
        <Inputs parsed={parsed} draft={draft} wrong={wrong} put={put} />
        <div className="flex flex-wrap items-center gap-2">
          <button type="submit" className="button button-main" disabled={send.isPending || isSent}>
            {isSent ? 'Sent' : 'Answer'}
          </button>
          <button type="button" className="button" disabled={send.isPending || isSent} onClick={decline}>
            Decline
          </button>
          <span role="alert" className="text-sm text-bad">
            {send.error === null ? '' : oneLine(send.error.message, 300)}
          </span>
          <span role="status" className="text-sm text-ink-2">
            {isSent
              ? send.data?.status === 'ignored'
                ? 'Not used: the question was already answered or had timed out.'
                : 'The turn continues with this answer.'
              : ''}
          </span>
        </div>
      </form>
    </article>
  )
}

interface InputsProps {
  readonly parsed: ParsedQuestion
  readonly draft: Draft
  readonly wrong: Draft
  readonly put: (name: string, value: string) => void
}

function Inputs({ parsed, draft, wrong, put }: InputsProps) {
  const group = useId()
  if (parsed.fields.length > 0)
    return parsed.fields.map((field, at) => (
      <Field key={at} field={field} value={draft.get(field.name) ?? ''} wrong={wrong.get(field.name)} put={put} />
    ))
  if (parsed.choices.length > 0)
    return (
      <fieldset>
        <legend className="label">Choose one</legend>
        <div className="flex flex-wrap gap-2">
          {parsed.choices.map((choice, at) => (
            <label
              key={at}
              className="button max-w-full whitespace-normal has-checked:border-start has-checked:bg-start-soft"
            >
              <input
                type="radio"
                name={group}
                value={choice}
                checked={draft.get(words) === choice}
                onChange={() => put(words, choice)}
              />
              <bdi>{oneLine(choice, 200)}</bdi>
            </label>
          ))}
        </div>
        <Wrong text={wrong.get(words)} />
      </fieldset>
    )
  return (
    <div>
      <textarea
        className="field w-full"
        rows={2}
        aria-label="Your answer"
        placeholder="Your answer"
        value={draft.get(words) ?? ''}
        onChange={(event) => put(words, event.target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit()
        }}
      />
      <Wrong text={wrong.get(words)} />
    </div>
  )
}

interface FieldProps {
  readonly field: FieldSpec
  readonly value: string
  readonly wrong: string | undefined
  readonly put: (name: string, value: string) => void
}

function Field({ field, value, wrong, put }: FieldProps) {
  const id = useId()
  const change = (event: { target: { value: string } }) => put(field.name, event.target.value)
  const common = { id, value, onChange: change, className: 'field w-full', 'aria-invalid': wrong !== undefined }
  let input: ReactNode
  if (field.type === 'boolean')
    input = (
      <select {...common}>
        <option value="">–</option>
        <option value="true">yes</option>
        <option value="false">no</option>
      </select>
    )
  else if (field.type === 'number' || field.type === 'integer') input = <input {...common} inputMode="decimal" />
  else input = <textarea {...common} rows={field.type === 'array' || field.type === 'object' ? 3 : 1} />
  return (
    <div>
      <label htmlFor={id} className="text-sm font-medium">
        <bdi>{oneLine(field.name, 120)}</bdi>
        {field.required === true && <span className="text-ink-3"> (required)</span>}
      </label>
      {field.description !== undefined && <p className="label">{oneLine(field.description, 300)}</p>}
      {input}
      <Wrong text={wrong} />
    </div>
  )
}

const Wrong = ({ text }: { readonly text: string | undefined }) => (
  <p role="alert" className="min-h-4 text-xs text-bad">
    {text ?? ''}
  </p>
)
