/** The fields that the forms for tasks and turns share: who works, on what, and the buttons at the end with the error of the last try. */
import type { Agent } from '../api/types.js'
import { Problem } from '../api/client.js'
import { oneLine } from '../model/text.js'

interface AgentFieldProps {
  readonly agents: readonly Agent[]
  readonly value: string
  /** What no choice means; absent: one must be chosen. */
  readonly none?: string | undefined
  readonly change: (agent: string) => void
}

/** Retired agents run nothing. A chosen agent that the project does not have stays visible. */
export function AgentField({ agents, value, none, change }: AgentFieldProps) {
  const names = agents.filter(({ status }) => status !== 'retired').map(({ agent_id: id }) => id)
  const shown = value === '' || names.includes(value) ? names : [value, ...names]
  return (
    <label className="block">
      <span className="font-medium">Agent</span>
      <select
        className="field mt-1 w-full"
        required={none === undefined}
        value={value}
        onChange={(event) => change(event.target.value)}
      >
        {(none !== undefined || value === '') && <option value="">{none ?? 'choose an agent'}</option>}
        {shown.map((name) => (
          <option key={name} value={name}>
            {oneLine(name, 120)}
          </option>
        ))}
      </select>
    </label>
  )
}

interface PriorityFieldProps {
  readonly value: string | number
  readonly required?: boolean
  readonly change: (field: HTMLInputElement) => void
}

export function PriorityField({ value, required = false, change }: PriorityFieldProps) {
  return (
    <label className="block">
      <span className="font-medium">Priority</span>
      <input
        className="field mt-1 w-full"
        type="number"
        step="any"
        min={-1_000_000}
        max={1_000_000}
        required={required}
        value={value}
        onChange={(event) => change(event.target)}
      />
    </label>
  )
}

interface InstructionFieldProps {
  readonly value: string
  readonly max: number
  readonly help: string
  readonly required?: boolean
  readonly change: (text: string) => void
}

export function InstructionField({ value, max, help, required = false, change }: InstructionFieldProps) {
  return (
    <label className="block">
      <span className="font-medium">Instruction</span>
      <textarea
        className="field mt-1 h-28 w-full resize-y py-1.5"
        required={required}
        maxLength={max}
        value={value}
        placeholder={help}
        onChange={(event) => change(event.target.value)}
      />
    </label>
  )
}

interface FormEndProps {
  readonly error: Error | null
  /** The name of the button that sends the form. */
  readonly name: string
  readonly isBusy: boolean
  readonly close: () => void
}

export function FormEnd({ error, name, isBusy, close }: FormEndProps) {
  const hint = error instanceof Problem ? error.hint : undefined
  return (
    <>
      <div role="alert" className="min-h-5 text-sm text-bad">
        {error !== null && <p>{oneLine(error.message, 300)}</p>}
        {hint !== undefined && <p>{oneLine(hint, 300)}</p>}
      </div>
      <div className="flex justify-end gap-2">
        <button type="button" className="button" onClick={close}>
          Cancel
        </button>
        <button type="submit" className="button button-main" disabled={isBusy}>
          {name}
        </button>
      </div>
    </>
  )
}
