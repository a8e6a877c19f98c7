-- One active turn per output box (T5.3). A turn usually writes to its agent's own box; a box of another agent, or of
-- none, is borrowed while the turn is active.

-- Whether a turn that writes to p_box_id, which is not its agent's own box, may be leased. The caller has locked the
-- agent's head. The function locks the owner's head too, because the owner must not start a turn in the box until the
-- caller commits. If another session holds that lock, the box counts as in use, and the sweep of queued rows leases the
-- turn later.
create or replace function state.may_borrow_box(p_box_id text) returns boolean language plpgsql as $$
#variable_conflict use_column
declare
  v_owner cards.boxes;
begin
  if exists (select from state.borrowed_boxes b where b.box_id = p_box_id) then return false; end if;
  select * into v_owner from cards.boxes b where b.box_id = p_box_id;
  if v_owner.agent_id is null then return true; end if;
  perform from state.agent_state_head h where h.project_id = v_owner.project_id and h.agent_id = v_owner.agent_id
  order by h.epoch_group desc limit 1 for no key update skip locked;
  return found and not state.owner_uses_box(p_box_id);
end $$;

create or replace function state.owner_uses_box(p_box_id text) returns boolean language sql as $$
  select exists (select from cards.boxes b cross join lateral state.head(b.project_id, b.agent_id) h
    where b.box_id = p_box_id and h.active_agent_turn_id is not null and h.output_box_id = p_box_id)
$$;

-- Writes state.borrowed_boxes when a turn with a borrowed box becomes active, changes its box, or ends.
create or replace function state.track_borrowed_box() returns trigger language plpgsql as $$
#variable_conflict use_column
begin
  if old.active_agent_turn_id is not null then
    delete from state.borrowed_boxes b where b.box_id = old.output_box_id and b.project_id = old.project_id
      and b.agent_id = old.agent_id;
  end if;
  if new.active_agent_turn_id is not null and new.output_box_id is distinct from new.home_box_id then
    if state.owner_uses_box(new.output_box_id) then
      raise exception 'cannot borrow box %: a turn of its owner writes to it', new.output_box_id
        using errcode = 'unique_violation', constraint = 'one_turn_per_borrowed_box';
    end if;
    insert into state.borrowed_boxes (box_id, project_id, agent_id)
    values (new.output_box_id, new.project_id, new.agent_id);
  end if;
  return null;
end $$;

create or replace trigger borrowed_boxes_are_tracked after update on state.agent_state_head for each row
  when ((old.active_agent_turn_id is distinct from new.active_agent_turn_id
      or old.output_box_id is distinct from new.output_box_id)
    and (old.output_box_id is distinct from old.home_box_id or new.output_box_id is distinct from new.home_box_id))
  execute function state.track_borrowed_box();
